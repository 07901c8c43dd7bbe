"""The route of events. It is documented like any other, but finds its arguments by hand: FastAPI's general way of
finding them takes longer than to count a small batch."""

import re
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send

from app.api.batch_schema import BATCH
from app.api.dependencies import IDEMPOTENCY_KEY, IdempotencyKey, IngesterOfName, SketchName
from app.api.errors import responses
from app.api.fields import NAME
from app.api.intake import Upload
from app.api.outputs import ReceiptOut
from app.core.errors import BadBatch, InvalidRequest
from app.refusals import (
    BodyTooLarge,
    Closed,
    Conflict,
    IdempotencyKeyReused,
    Overloaded,
    UnknownSketch,
    UnsupportedMediaType,
    WrongUserKey,
)
from app.server.body import Body

_NAME = re.compile(NAME)
_IDEMPOTENCY_KEY = re.compile(IDEMPOTENCY_KEY)


class EventsRoute(APIRoute):
    """A route that finds the arguments of its endpoint by hand. It checks what FastAPI would check."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. One of another method is left to FastAPI, which refuses it."""
        if scope["method"] != "POST":
            await super().handle(scope, receive, send)
            return
        name: str = scope["path_params"]["name"]
        caller = await scope["app"].callers.recognise(scope, checked_again=True)  # by the transaction that counts
        caller.require("ingest")
        caller.require_name(name)
        if not _NAME.fullmatch(name):  # `$` alone would let a line break follow
            raise InvalidRequest("path/name: a name has lower-case letters, digits, '.', '_' and '-', at most 100.")
        upload, idempotency_key = _read(scope, receive)
        if idempotency_key is not None and not _IDEMPOTENCY_KEY.fullmatch(idempotency_key):
            raise InvalidRequest("header/Idempotency-Key: send 1 to 255 printable ASCII characters without spaces.")
        receipt = await self.endpoint(name, caller, upload, idempotency_key)
        body = b'{"accepted":%d}' % receipt["accepted"]
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _read(scope: Scope, receive: Receive) -> tuple[Upload, str | None]:
    """The body that is to come with what the head says of it, and the idempotency key."""
    content_type, encodings, idempotency_key = None, [], None
    for name, value in scope["headers"]:
        if name == b"content-type":
            content_type = str(value, "latin-1") if content_type is None else content_type
        elif name == b"content-encoding":
            encodings.append(str(value, "latin-1"))
        elif name == b"idempotency-key" and idempotency_key is None:
            idempotency_key = str(value, "latin-1")
    assert isinstance(receive, Body)  # noqa: S101  # what `Guard` hands to every route
    return Upload(receive, content_type or "", ",".join(encodings), scope["app"].intake), idempotency_key


def _upload(request: Request) -> Upload:
    return _read(request.scope, request.receive)[0]


router = APIRouter(route_class=EventsRoute)


@router.post(
    "/v1/sketches/{name}/events",
    tags=["events"],
    response_model=ReceiptOut,
    openapi_extra={"requestBody": BATCH},
    responses=responses(
        BadBatch,
        UnknownSketch,
        Closed,
        Conflict,
        BodyTooLarge,
        UnsupportedMediaType,
        IdempotencyKeyReused,
        Overloaded,
        WrongUserKey,
    ),
)
async def post_events(
    name: SketchName,
    caller: IngesterOfName,
    upload: Annotated[Upload, Depends(_upload)],
    idempotency_key: IdempotencyKey = None,
) -> dict[str, int]:
    """Count one batch, in the order given. Needs `ingest`.

    JSON (`{"events": […]}`, an event is a key or `{"key": …, "count": …}`), NDJSON (one such event a line), text (one
    key a line), CSV, Parquet or Arrow (a column `key`, perhaps `count`), in UTF-8; with `Content-Encoding: gzip` or
    `zstd` if you like. A key has 1 to 512 bytes. `count` means that many separate events. A batch is atomic: one bad
    item refuses all of it and the answer names the first hundred. The answer comes after the commit; batches that are
    sent at the same time share one. 503 `overloaded`: nothing was counted, send it again after `Retry-After`.

    A sketch that enforces `max_contributions` wants to know the `user` of each event: `{"user": …, "key": …}`, or a
    column. A sketch of unit `user` takes whole people, each with all their keys in one item:
    `{"users": [{"user": …, "keys": […]}]}`, NDJSON of such items, or Parquet or Arrow with one row for each person, a
    list column `keys` and a column `user`. It takes no rows of (user, key), so no text and no CSV: group them by user
    before you send them, as `discreet ingest` does with a sorted file. A sketch that does not enforce takes people
    without `user` too. What goes beyond a user's allowance is dropped, and the answer does not tell: it would say what
    others have sent.
    """
    return {"accepted": await upload.intake.count(caller, name, upload, idempotency_key)}
