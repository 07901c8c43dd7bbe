"""Refusals as RFC 9457 problems: one table says which status and which stable slug each has."""

from collections.abc import Mapping

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from app import refusals
from app.core import errors

TYPE_PREFIX = "urn:discreet:problem:"
MEDIA_TYPE = "application/problem+json"

PROBLEMS: dict[type[errors.Refusal], tuple[int, str]] = {
    errors.BadBatch: (400, "bad-batch"),
    errors.BadState: (400, "bad-state"),
    refusals.Unauthenticated: (401, "unauthenticated"),
    refusals.Forbidden: (403, "forbidden"),
    refusals.NoSnapshot: (404, "no-snapshot"),
    refusals.UnknownApiKey: (404, "unknown-key"),
    refusals.UnknownLedger: (404, "unknown-ledger"),
    refusals.UnknownSketch: (404, "unknown-sketch"),
    refusals.UnknownSnapshot: (404, "unknown-snapshot"),
    refusals.NotAcceptable: (406, "not-acceptable"),
    refusals.BodyTimeout: (408, "body-timeout"),
    errors.BudgetExhausted: (409, "budget-exhausted"),
    refusals.Closed: (409, "closed"),
    refusals.Conflict: (409, "conflict"),
    errors.IncompatibleSketches: (409, "incompatible-sketches"),
    refusals.BodyTooLarge: (413, "body-too-large"),
    refusals.UnsupportedMediaType: (415, "unsupported-media-type"),
    errors.InvalidNumber: (422, "invalid-number"),
    errors.InvalidRequest: (422, "invalid-request"),
    refusals.IdempotencyKeyReused: (422, "key-reused"),
    errors.NoMechanism: (422, "no-mechanism"),
    refusals.TooManyRequests: (429, "too-many-requests"),
    refusals.Overloaded: (503, "overloaded"),
    refusals.WrongUserKey: (503, "wrong-user-key"),
    refusals.Unavailable: (503, "unavailable"),
}
_HEADERS: dict[int, dict[str, str]] = {
    401: {"WWW-Authenticate": "Bearer"},
    408: {"Connection": "close"},  # what else comes on it would be the rest of the body
    503: {"Retry-After": "1"},
}


class ProblemResponse(JSONResponse):
    """An answer that leaves its slug in the request's scope, for the log and the metrics."""

    media_type = MEDIA_TYPE
    slug = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["problem"] = self.slug
        await super().__call__(scope, receive, send)


def problem(
    status: int, slug: str, title: str, detail: str, facts: Mapping[str, object] | None = None
) -> ProblemResponse:
    """The answer for a problem of this status and slug; `facts` are further members."""
    answer = ProblemResponse(members(status, slug, title, detail, facts or {}), status, headers=_HEADERS.get(status))
    answer.slug = slug
    return answer


def members(status: int, slug: str, title: str, detail: str, facts: Mapping[str, object]) -> dict[str, object]:
    """The members of a problem, as RFC 9457 names them."""
    return {"type": TYPE_PREFIX + slug, "title": title, "status": status, "detail": detail, **facts}


def refused(refusal: errors.Refusal) -> JSONResponse:
    """The answer for a refusal."""
    status, slug = PROBLEMS[type(refusal)]
    answer = problem(status, slug, refusal.title, refusal.detail, refusal.facts)
    if isinstance(refusal, refusals.TooManyRequests):
        answer.headers["Retry-After"] = str(refusal.seconds)
    return answer
