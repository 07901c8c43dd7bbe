"""Refusals as RFC 9457 problems. One table says which status and slug each has; one handler renders it."""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, TypeAlias

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from app import refusals
from app.api.dependencies import require_key
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
_EXAMPLES: dict[type[errors.Refusal], errors.Refusal] = {
    errors.BadBatch: errors.BadBatch("Item 2: a key has 1 to 512 bytes.", [(2, "a key has 1 to 512 bytes.")]),
    errors.IncompatibleSketches: errors.IncompatibleSketches("k", "Source 'a' has k = 64, but 'total' has k = 1024."),
    errors.BudgetExhausted: errors.BudgetExhausted(
        requested={"epsilon": "0.5", "delta": "1e-6"},
        remaining=[{"ledger": "page-views", "epsilon": "0.25", "delta": "9e-6"}],
        largest_epsilon="0.25",
        blocking=["page-views"],
    ),
}
_HEADERS: dict[int, dict[str, str]] = {
    401: {"WWW-Authenticate": "Bearer"},
    408: {"Connection": "close"},  # what else comes on it would be the rest of the body
    503: {"Retry-After": "1"},
}
_DOCUMENTED_HEADERS: dict[int, dict[str, str]] = {
    401: {"WWW-Authenticate": "How to send a key"},
    429: {"Retry-After": "Seconds to wait"},
    503: {"Retry-After": "Seconds to wait"},
}


class Problem(BaseModel):
    """RFC 9457. Further members depend on the type; `errors` lists what is wrong and where."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description=f"`{TYPE_PREFIX}` and a stable slug", examples=[f"{TYPE_PREFIX}unknown-sketch"])
    title: str = Field(examples=["No such sketch"])
    status: int = Field(examples=[404])
    detail: str = Field(description="What to change", examples=["There is no sketch named 'checkout'."])


class BudgetProblem(Problem):
    """A refusal that must not be retried as it stands. It depends on the ledgers alone."""

    requested: dict[str, str] = Field(description="The ε and δ of the release")
    remaining: list[dict[str, str]] = Field(description="What each of the sketch's ledgers has left")
    largest_epsilon: str = Field(description="The largest ε that fits now at the requested δ", examples=["0.25"])
    blocking: list[str] = Field(description="The ledgers that do not cover the request")


Responses: TypeAlias = dict[int | str, dict[str, Any]]


def responses(*others: type[errors.Refusal]) -> Responses:
    """OpenAPI responses for what an operation with a key may refuse: what each of them may, and these."""
    return refusing(refusals.Unauthenticated, refusals.Forbidden, errors.InvalidRequest, *others, refusals.Unavailable)


def refusing(*kinds: type[errors.Refusal]) -> Responses:
    """OpenAPI responses for these refusals and no others, each with an example."""
    statuses = sorted({PROBLEMS[refusal][0] for refusal in kinds})
    return {status: _answer([each for each in kinds if PROBLEMS[each][0] == status]) for status in statuses}


def _answer(kinds: list[type[errors.Refusal]]) -> dict[str, Any]:
    """Of one status, for whatever is refused with it."""
    headers = headers_documented(_DOCUMENTED_HEADERS.get(PROBLEMS[kinds[0]][0], {}))
    return {
        "description": " ".join(f"`{PROBLEMS[refusal][1]}`: {refusal.title}." for refusal in kinds),
        "model": BudgetProblem if errors.BudgetExhausted in kinds else Problem,
        "content": {
            MEDIA_TYPE: {"examples": {PROBLEMS[refusal][1]: {"value": _example(refusal)} for refusal in kinds}}
        },
        **({"headers": headers} if headers else {}),
    }


def headers_documented(words: Mapping[str, str]) -> dict[str, Any]:
    """OpenAPI headers that an answer always has, each with what it says."""
    return {name: {"description": says, "required": True, "schema": {"type": "string"}} for name, says in words.items()}


def _example(refusal: type[errors.Refusal]) -> dict[str, object]:
    shown = _EXAMPLES.get(refusal) or refusal("What is wrong and what to change, in a sentence.")
    return _members(*PROBLEMS[refusal], refusal.title, shown.detail, shown.facts)


def documented(document: dict[str, Any]) -> dict[str, Any]:
    """FastAPI writes every model under the route's own media type; those of problems move under theirs. What the
    middleware refuses is said here, for it knows no routes."""
    for path in document["paths"].values():
        for operation in path.values():
            for answer in operation["responses"].values():
                if MEDIA_TYPE in answer.get("content", {}):
                    answer["content"][MEDIA_TYPE] |= answer["content"].pop("application/json", {})
            known = operation["responses"] | dict(_of_the_middleware(operation))
            operation["responses"] = {status: known[status] for status in sorted(known)}
    return document


def _of_the_middleware(operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """429 for whatever wants a key; 408 and 413 for whatever takes a body."""
    for member, refusal in (
        ("security", refusals.TooManyRequests),
        ("requestBody", refusals.BodyTimeout),
        ("requestBody", refusals.BodyTooLarge),
    ):
        if member in operation:
            answer = _answer([refusal])
            answer["content"][MEDIA_TYPE]["schema"] = {"$ref": f"#/components/schemas/{answer.pop('model').__name__}"}
            yield str(PROBLEMS[refusal][0]), answer


class ProblemResponse(JSONResponse):
    """Leaves its slug in the scope, for the log and the metrics."""

    media_type = MEDIA_TYPE
    slug = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["problem"] = self.slug
        await super().__call__(scope, receive, send)


def problem(
    status: int, slug: str, title: str, detail: str, facts: Mapping[str, object] | None = None
) -> ProblemResponse:
    answer = ProblemResponse(_members(status, slug, title, detail, facts or {}), status, headers=_HEADERS.get(status))
    answer.slug = slug
    return answer


def _members(status: int, slug: str, title: str, detail: str, facts: Mapping[str, object]) -> dict[str, object]:
    return {"type": TYPE_PREFIX + slug, "title": title, "status": status, "detail": detail, **facts}


def install(app: FastAPI) -> None:
    app.add_exception_handler(errors.Refusal, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


def _refused(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, errors.Refusal)  # noqa: S101  # registered for nothing else
    return refused(error)


def refused(refusal: errors.Refusal) -> JSONResponse:
    status, slug = PROBLEMS[type(refusal)]
    answer = problem(status, slug, refusal.title, refusal.detail, refusal.facts)
    if isinstance(refusal, refusals.TooManyRequests):
        answer.headers["Retry-After"] = str(refusal.seconds)
    return answer


def _invalid(request: Request, error: Exception) -> JSONResponse:
    """Where and why, never the value: it may be an event."""
    assert isinstance(error, RequestValidationError)  # noqa: S101
    if any(item["type"] == "json_invalid" for item in error.errors()):
        refusal = _refusal_of_key(request)
        if refusal is not None:
            return refused(refusal)
    wrong = [
        {"where": "/".join(str(part) for part in item["loc"]), "detail": item["msg"]} for item in error.errors()[:100]
    ]
    detail = "; ".join(f"{item['where']}: {item['detail']}" for item in wrong[:3])
    return problem(422, "invalid-request", errors.InvalidRequest.title, detail, {"errors": wrong})


def _refusal_of_key(request: Request) -> errors.Refusal | None:
    """A body is read before the key is asked for. If it cannot be, the key is asked for here: strangers learn nothing
    but that they are."""
    try:
        require_key(request)
    except errors.Refusal as refusal:
        return refusal
    return None


def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101
    if error.status_code in _HTTP_REFUSALS:
        own = _HTTP_REFUSALS[error.status_code](_HTTP_DETAILS.get(error.status_code, str(error.detail)))
        return refused(own if error.status_code == 408 else _refusal_of_key(request) or own)
    phrase = HTTPStatus(error.status_code).phrase
    slug = phrase.lower().replace(" ", "-")
    answer = problem(error.status_code, slug, phrase, _HTTP_DETAILS.get(error.status_code, str(error.detail)))
    answer.headers.update(error.headers or {})
    methods = _methods_at(request) if error.status_code == 405 else []
    if methods:
        answer.headers["Allow"] = ", ".join(methods)
    return answer


def _methods_at(request: Request) -> list[str]:
    """All that the path takes. Starlette names those of the first route that has it, which may not be the only one."""
    here = [route for route in request.app.state.routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in here for method in route.methods})


_HTTP_REFUSALS: dict[int, type[errors.Refusal]] = {
    400: errors.InvalidRequest,
    408: refusals.BodyTimeout,
    413: refusals.BodyTooLarge,
}
_HTTP_DETAILS = {
    400: "The body could not be read. Send JSON in UTF-8, not deeply nested, with numbers of ordinary length.",
    404: "There is nothing at this path; /docs lists what there is.",
    405: "This path does not take this method; /docs lists what it takes.",
}
