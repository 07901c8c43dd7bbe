"""What routes ask for: the caller, the context, a page, the claim of an idempotency key."""

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Query, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from app.api.fields import NAME
from app.core.errors import InvalidRequest
from app.refusals import Unauthenticated
from app.store.claims import Claim
from app.usecases.access import Principal, Scope
from app.usecases.context import Context
from app.usecases.manage_api_keys import authenticate

bearer = HTTPBearer(
    auto_error=False,
    scheme_name="API key",
    description="Paste a key as it is, without `Bearer`: the one that the first start printed, the one in "
    "`DISCREET_ADMIN_KEY`, or the `secret` that POST /v1/keys answered. The page forgets it when you leave.",
)


def context(request: Request) -> Context:
    found: Context = request.app.state.context
    return found


AppContext = Annotated[Context, Depends(context)]


def _caller(
    app: AppContext, credentials: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]
) -> Principal:
    if credentials is None:
        raise Unauthenticated("Send a key as: Authorization: Bearer <key>.")
    return authenticate(app, credentials.credentials)


def require_key(request: Request) -> None:
    """For a request that is refused before its route's dependencies were asked: a valid key, if the route wants one."""
    if not asks_for_key(request.scope.get("route")):
        return
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    valid = scheme.lower() == "bearer" and secret
    _caller(context(request), HTTPAuthorizationCredentials(scheme=scheme, credentials=secret) if valid else None)


def asks_for_key(route: Any) -> bool:
    """The route of events is not one of FastAPI's, and always asks."""
    dependant = getattr(route, "dependant", None)
    return _has_bearer(dependant) if dependant is not None else getattr(route, "name", "") == "post_events"


def _has_bearer(dependant: Any) -> bool:
    return dependant.call is bearer or any(_has_bearer(each) for each in dependant.dependencies)


def _with_scope(scope: Scope, *, named: bool) -> Callable[..., Principal]:
    def plain(caller: Annotated[Principal, Depends(_caller)]) -> Principal:
        caller.require(scope)
        return caller

    def on_name(caller: Annotated[Principal, Depends(plain)], request: Request) -> Principal:
        caller.require_name(request.path_params["name"])  # not a parameter: it would hide the route's own in the docs
        return caller

    return on_name if named else plain


def _unlimited(caller: Annotated[Principal, Depends(_with_scope("admin", named=False))]) -> Principal:
    caller.require_unlimited()
    return caller


Reader = Annotated[Principal, Depends(_with_scope("read", named=False))]
Operator = Annotated[Principal, Depends(_unlimited)]  # admin, not limited to names
ReaderOfName = Annotated[Principal, Depends(_with_scope("read", named=True))]
AdminOfName = Annotated[Principal, Depends(_with_scope("admin", named=True))]
IngesterOfName = Annotated[Principal, Depends(_with_scope("ingest", named=True))]
ReleaserOfName = Annotated[Principal, Depends(_with_scope("release", named=True))]


def _name(example: str, what: str) -> object:
    return Path(pattern=NAME, description=what, openapi_examples={example: {"value": example}})


SketchName = Annotated[str, _name("page-views", "Name of the sketch: lower-case letters, digits, `.`, `_`, `-`")]
MergeTarget = Annotated[str, _name("all-views", "Name of the target: an existing sketch, or a new one")]
LedgerName = Annotated[str, _name("marketing", "Name of the ledger: lower-case letters, digits, `.`, `_`, `-`")]

REQUEST_KEY = r"^[\x21-\x7e]{1,255}$"

RequestKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=REQUEST_KEY,
        description="Makes a retry safe: a request sent again under it has its effect once. Belongs to your API key.",
    ),
]


def claim_of(caller: Principal, operation: str, target: str, key: str | None, content: bytes) -> Claim | None:
    """The claim that an Idempotency-Key stakes, if one was sent."""
    if key is None:
        return None
    return Claim.of(secret=caller.secret, operation=operation, target=target, key=key, content=content)


@dataclass(frozen=True, slots=True)
class PageRequest:
    limit: int
    after: str | None

    def after_number(self) -> int | None:
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
    return None if position is None else base64.urlsafe_b64encode(position.encode()).decode()


def _opened(cursor: str) -> str:
    try:
        return base64.urlsafe_b64decode(cursor.encode()).decode().replace("\0", "")
    except (ValueError, binascii.Error):
        raise InvalidRequest("Pass a cursor as it was given.") from None
