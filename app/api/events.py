"""Events: the one hot path. A plain route that reads bytes and answers bytes, documented like any other."""

import asyncio
import re
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from fastapi import APIRouter
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.decoding import decode_events, decode_users, may_grow, scan_events
from app.api.dependencies import REQUEST_KEY, IngesterOfName, RequestKey, SketchName, claim_of
from app.api.errors import refused, responses
from app.api.fields import NAME
from app.api.intake import Admission, Intake
from app.api.limits import Limits
from app.api.middleware import Guard
from app.api.outputs import ReceiptOut
from app.api.turns import Turns
from app.core.errors import BadBatch, InvalidRequest, Refusal
from app.core.kernel import Batch
from app.core.people import Rules
from app.refusals import (
    BodyTooLarge,
    ChangedRules,
    Closed,
    Conflict,
    IdempotencyKeyReused,
    Overloaded,
    Unauthenticated,
    Unavailable,
    UnknownSketch,
    UnsupportedMediaType,
    WrongUserKey,
)
from app.usecases.access import Principal
from app.usecases.bound_people import Bounds, bounds_of
from app.usecases.context import Context
from app.usecases.group_commit import GroupCommit
from app.usecases.ingest_events import Submission
from app.usecases.manage_api_keys import RecentCallers, authenticate

# The event loop must never wait, so what takes long to decode is handed to a thread. But to hand it over and back takes
# longer than a scanner does for a batch of common size.
_SCANNED_AT_ONCE_BYTES = 256 * 1024
_READ_AT_ONCE_BYTES = 16 * 1024
DECODED_AT_ONCE = 2  # of those in threads
_MOST_KNOWN = 10_000
_NAME = re.compile(NAME)
_KEY = re.compile(REQUEST_KEY)


class Ingest:
    """What the route needs, made once for the app."""

    def __init__(self, context: Context, intake: Intake) -> None:
        self.context = context
        self.intake = intake
        self.commits = GroupCommit(context)
        self.turns = Turns(DECODED_AT_ONCE)
        self.callers = RecentCallers()
        self._known_bounds: dict[str, Bounds] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            accepted = await self._ingest(scope, receive)
        except ClientDisconnect:
            return  # in the middle of its body: there is nobody to answer
        except Refusal as refusal:
            await refused(refusal)(scope, receive, send)
        else:
            await _answer(send, b'{"accepted":%d}' % accepted)

    async def _ingest(self, scope: Scope, receive: Receive) -> int:
        headers = Headers(scope=scope)
        name: str = scope["path_params"]["name"]
        caller = await self._caller(headers.get("authorization", ""))
        caller.require("ingest")
        caller.require_name(name)
        request_key = headers.get("idempotency-key")
        _require_form(name, request_key)
        await self._bounds(name)  # a sketch that is not there needs no body
        with self.intake.admit() as admission:
            body = await admission.body(receive, _declared(headers))
            sent = _Sent(caller, name, request_key, *_form(headers), body)
            with suppress(ChangedRules):
                return await self._count(sent, admission)
            self._known_bounds.pop(name, None)  # what was remembered is of another sketch of that name
            try:
                return await self._count(sent, admission)
            except ChangedRules as again:
                raise Unavailable(str(again)) from None

    async def _count(self, sent: "_Sent", admission: Admission) -> int:
        """Read the body by the sketch's rules, count it, and say how many items it had.

        It has its place among the batches of the sketch from now on, however long it takes to decode.
        """
        with self.commits.enter(sent.name) as place:
            bounds = await self._bounds(sent.name)
            scanned = self._scanned(bounds, sent)
            decode = partial(self._submission, bounds, sent, scanned, admission)
            small = len(sent.body) <= _READ_AT_ONCE_BYTES and not may_grow(sent.content_type, sent.encoding)
            at_once = scanned is not None or small
            submission = decode() if at_once else await self.turns.run(sent.caller.key_id, decode)
            admission.keep(max(len(sent.body), submission.batch.nbytes))
            await place.count(submission)
            return submission.batch.events

    async def _caller(self, authorization: str) -> Principal:
        scheme, _, secret = authorization.partition(" ")
        if scheme.lower() != "bearer" or not secret:
            raise Unauthenticated("Send a key as: Authorization: Bearer <key>.")
        caller = self.callers.find(secret)
        if caller is None:
            caller = await asyncio.to_thread(authenticate, self.context, secret)
            self.callers.remember(caller)
        return caller

    async def _bounds(self, name: str) -> Bounds:
        """Fixed when the sketch was made. What is remembered is checked in the transaction that counts."""
        bounds = self._known_bounds.get(name)
        if bounds is None:
            bounds = await asyncio.to_thread(bounds_of, self.context, name)
            if len(self._known_bounds) >= _MOST_KNOWN:
                self._known_bounds.clear()
            self._known_bounds[name] = bounds
        return bounds

    def _submission(self, bounds: Bounds, sent: "_Sent", scanned: Batch | None, admission: Admission) -> Submission:
        batch = scanned if scanned is not None else self._batch(bounds.rules, sent, admission)
        people = bounds.people(batch)
        content = b"\0".join((sent.content_type.encode(), sent.encoding.encode(), sent.body)) if sent.key else b""
        claim = claim_of(sent.caller, "events", sent.name, sent.key, content)
        return Submission(batch, claim, sent.caller.key_id, people, bounds.rules.allowance, bounds.rules)

    def _scanned(self, bounds: Bounds, sent: "_Sent") -> Batch | None:
        """Not where there is more to do than to scan: to take fingerprints, or to check sets."""
        if len(sent.body) > _SCANNED_AT_ONCE_BYTES or bounds.fingerprints or bounds.rules.unit == "user":
            return None
        return scan_events(sent.content_type, sent.encoding, sent.body, max_items=self.context.max_items)

    def _batch(self, rules: Rules, sent: "_Sent", admission: Admission) -> Batch:
        decode = partial(decode_users, most_keys=rules.max_contributions) if rules.unit == "user" else decode_events
        return decode(
            *(sent.content_type, sent.encoding, sent.body),
            max_items=self.context.max_items,
            max_bytes=self.intake.max_body_bytes,
            admit=admission.grow,
        )

    def close(self) -> None:
        self.turns.close()
        self.commits.close()


class _Sent(NamedTuple):
    """One request, as it was received."""

    caller: Principal
    name: str  # of the sketch
    key: str | None  # Idempotency-Key
    content_type: str
    encoding: str
    body: bytes


def _form(headers: Headers) -> tuple[str, str]:
    """Content type and encoding."""
    return headers.get("content-type", ""), ",".join(headers.getlist("content-encoding"))


def _require_form(name: str, request_key: str | None) -> None:
    if not _NAME.fullmatch(name):  # `$` alone would let a line break follow
        raise InvalidRequest("path/name: a name has lower-case letters, digits, '.', '_' and '-', at most 100.")
    if request_key is not None and not _KEY.fullmatch(request_key):
        raise InvalidRequest("header/Idempotency-Key: send 1 to 255 printable ASCII characters without spaces.")


def _declared(headers: Headers) -> int | None:
    length = headers.get("content-length", "").strip()
    return int(length[:18]) if length.isdecimal() else None  # cut: what has 18 digits is too large anyway


async def _answer(send: Send, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class HotPath:
    """Sends batches straight to `Ingest`, and everything else to the app: to be found among all routes, and to pass
    their layers, would cost a small batch more than to be counted."""

    def __init__(self, app: ASGIApp, ingest: ASGIApp, limits: Limits) -> None:
        self.app = app
        self.ingest = Guard(ingest, limits, small_body_seconds=None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = _PATH.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if found is None:
            await self.app(scope, receive, send)
        else:
            scope.update(path_params=found.groupdict(), route=_ROUTE)
            await self.ingest(scope, receive, send)


class _Route(NamedTuple):
    name: str


_ROUTE = _Route("post_events")
_PATH = re.compile(r"/v1/sketches/(?P<name>[^/]+)/events")

router = APIRouter()

_TEXT = {"type": "string", "minLength": 1}
_EVENT = {
    "oneOf": [
        _TEXT,
        {
            "type": "object",
            "required": ["key"],
            "additionalProperties": False,
            "properties": {
                "key": _TEXT,
                "count": {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
                "user": _TEXT,
            },
        },
    ]
}
_SET = {"type": "array", "items": _TEXT, "minItems": 1}
_USER = {
    "oneOf": [
        _SET,
        {
            "type": "object",
            "required": ["keys"],
            "additionalProperties": False,
            "properties": {"user": _TEXT, "keys": _SET},
        },
    ]
}


def _list_of(items: dict[str, Any], member: str) -> dict[str, Any]:
    return {
        "type": "object",
        "required": [member],
        "additionalProperties": False,
        "properties": {member: {"type": "array", "items": items}},
    }


_TABLE = {
    "schema": {
        "type": "string",
        "format": "binary",
        "description": "Events: a column `key` and, optionally, `count` and `user`. People, for a sketch of unit "
        "`user`: one row for each, with a list column `keys` and, where people are named, a column `user`.",
    }
}
_EVENTS_ALONE = {"type": "string", "description": "Events; a sketch of unit `user` does not take it."}
_BATCH: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {"oneOf": [_list_of(_EVENT, "events"), _list_of(_USER, "users")]},
            "example": {
                "events": [
                    "/home",
                    "/pricing",
                    {"key": "/home", "count": 400},
                    {"key": "/pricing", "count": 150},
                ]
            },
        },
        "application/x-ndjson": {
            "schema": {"type": "string"},
            "example": '"/home"\n{"key": "/pricing", "count": 150}\n',
        },
        "text/plain": {"schema": _EVENTS_ALONE, "example": "/home\n/pricing\n/home\n"},
        "text/csv": {"schema": _EVENTS_ALONE, "example": "key,count\n/home,400\n/pricing,150\n"},
        "application/vnd.apache.parquet": _TABLE,
        "application/vnd.apache.arrow.stream": _TABLE,
    },
}


@router.post(
    "/v1/sketches/{name}/events",
    tags=["events"],
    openapi_extra={"requestBody": _BATCH},
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
def post_events(name: SketchName, caller: IngesterOfName, idempotency_key: RequestKey = None) -> ReceiptOut:
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
    raise NotImplementedError("`HotPath` hands requests to `Ingest`; this is what the documentation is made from")
