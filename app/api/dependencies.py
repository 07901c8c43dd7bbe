"""What routes ask for: the caller, the context, names, a page."""

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Query, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from app.api.fields import NAME
from app.core.errors import InvalidRequest
from app.server.callers import Callers
from app.usecases.access import Principal, Scope
from app.usecases.context import Context

bearer = HTTPBearer(
    auto_error=False,
    scheme_name="API key",
    description="Paste a key as it is, without `Bearer`: the one that the first start printed, the one in "
    "`DISCREET_ADMIN_KEY`, or the `secret` that POST /v1/keys answered. The page forgets it when you leave.",
)


def context(request: Request) -> Context:
    """What every use case needs, as `main.py` chose it."""
    found: Context = request.app.context
    return found


AppContext = Annotated[Context, Depends(context)]


async def _caller(
    request: Request, _documented: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]
) -> Principal:
    return await recognise(request)


async def recognise(request: Request) -> Principal:
    """The caller of a request, or Unauthenticated."""
    callers: Callers = request.app.callers
    return await callers.recognise(request.scope)


async def require_key(request: Request) -> None:
    """For a request that is refused before its route's dependencies were asked: a valid API key, if the route wants
    one."""
    dependant = getattr(request.scope.get("route"), "dependant", None)
    if dependant is not None and _has_bearer(dependant):
        await recognise(request)


def _has_bearer(dependant: Any) -> bool:
    return dependant.call is bearer or any(_has_bearer(each) for each in dependant.dependencies)


def _with_scope(scope: Scope, *, named: bool) -> Callable[..., Principal]:
    def anywhere(caller: Annotated[Principal, Depends(_caller)]) -> Principal:
        caller.require(scope)
        return caller

    def on_name(caller: Annotated[Principal, Depends(anywhere)], request: Request) -> Principal:
        caller.require_name(request.path_params["name"])  # not a parameter: it would hide the route's own in the docs
        return caller

    return on_name if named else anywhere


def _unlimited(caller: Annotated[Principal, Depends(_with_scope("admin", named=False))]) -> Principal:
    caller.require_unlimited()
    return caller


Reader = Annotated[Principal, Depends(_with_scope("read", named=False))]
Operator = Annotated[Principal, Depends(_unlimited)]  # admin, not limited to names
ReaderOfName = Annotated[Principal, Depends(_with_scope("read", named=True))]
AdminOfName = Annotated[Principal, Depends(_with_scope("admin", named=True))]
IngesterOfName = Annotated[Principal, Depends(_with_scope("ingest", named=True))]
Releaser = Annotated[Principal, Depends(_with_scope("release", named=False))]
ReleaserOfName = Annotated[Principal, Depends(_with_scope("release", named=True))]


def _name(example: str, what: str) -> object:
    return Path(pattern=NAME, description=what, openapi_examples={example: {"value": example}})


SketchName = Annotated[str, _name("page-views", "Name of the sketch: lower-case letters, digits, `.`, `_`, `-`")]
MergeTarget = Annotated[str, _name("all-views", "Name of the target: an existing sketch, or a new one")]
LedgerName = Annotated[str, _name("marketing", "Name of the ledger: lower-case letters, digits, `.`, `_`, `-`")]

IDEMPOTENCY_KEY = r"^[\x21-\x7e]{1,255}$"

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=IDEMPOTENCY_KEY,
        description="Makes a retry safe: a request sent again under it has its effect once. Belongs to your API key.",
    ),
]


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which part of a list is asked for."""

    limit: int
    after: str | None

    def after_number(self) -> int | None:
        """Where the part begins, in a list whose items are numbered."""
        if self.after is None:
            return None
        if not self.after.isdecimal() or len(self.after) > 18:
            raise InvalidRequest("Pass a cursor as it was given.")
        return int(self.after)


def _page(
    limit: Annotated[int, Query(ge=1, le=1000, description="Items on a page")] = 100,
    cursor: Annotated[
        str | None,
        Query(max_length=200, description="The `cursor` of the page before; none for the first page"),
    ] = None,
) -> PageRequest:
    return PageRequest(limit, None if cursor is None else _opened(cursor))


Paging = Annotated[PageRequest, Depends(_page)]


def sealed(position: str | None) -> str | None:
    """A cursor that stands for a position in a list; None at the end of the list."""
    return None if position is None else base64.urlsafe_b64encode(position.encode()).decode()


def _opened(cursor: str) -> str:
    try:
        return base64.urlsafe_b64decode(cursor.encode()).decode().replace("\0", "")
    except (ValueError, binascii.Error):
        raise InvalidRequest("Pass a cursor as it was given.") from None
