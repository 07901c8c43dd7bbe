"""Problems for FastAPI: what each operation says it may be refused for, and what becomes of exceptions."""

from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, TypeAlias

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match

from app import refusals
from app.api.dependencies import require_key
from app.core import errors
from app.server.body import Interrupted
from app.server.problems import MEDIA_TYPE, PROBLEMS, TYPE_PREFIX, members, problem, refused

_EXAMPLES: dict[type[errors.Refusal], errors.Refusal] = {
    errors.BadBatch: errors.BadBatch("Item 2: a key has 1 to 512 bytes.", [(2, "a key has 1 to 512 bytes.")]),
    errors.IncompatibleSketches: errors.IncompatibleSketches("k", "Source 'a' has k = 64, but 'total' has k = 1024."),
    errors.BudgetExhausted: errors.BudgetExhausted(
        requested={"epsilon": "0.5", "delta": "1e-6"},
        remaining=[{"ledger": "page-views", "epsilon": "0.25", "delta": "9e-6"}],
        largest={"epsilon": "0.25"},
        blocking=["page-views"],
    ),
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
    largest_epsilon: str | None = Field(
        None, description="The largest ε that fits now at the requested δ", examples=["0.25"]
    )
    largest_rho: str | None = Field(None, description="The largest ρ, where the release was asked for in ρ")
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
    examples: dict[str, dict[str, object]] = {}
    for kind in kinds:
        shown = _EXAMPLES.get(kind) or kind("What is wrong and what to change, in a sentence.")
        status, slug = PROBLEMS[kind]
        examples[slug] = {"value": members(status, slug, kind.title, shown.detail, shown.facts)}
    return {
        "description": " ".join(f"`{PROBLEMS[refusal][1]}`: {refusal.title}." for refusal in kinds),
        "model": BudgetProblem if errors.BudgetExhausted in kinds else Problem,
        "content": {MEDIA_TYPE: {"examples": examples}},
        **({"headers": headers} if headers else {}),
    }


def headers_documented(words: Mapping[str, str]) -> dict[str, Any]:
    """OpenAPI headers that an answer always has, each with what it says."""
    return {name: {"description": says, "required": True, "schema": {"type": "string"}} for name, says in words.items()}


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


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    """Say where and why, never the value: it may be an event."""
    assert isinstance(error, RequestValidationError)  # noqa: S101
    if any(item["type"] == "json_invalid" for item in error.errors()):
        refusal = await _refusal_of_key(request)
        if refusal is not None:
            return refused(refusal)
    wrong = [
        {"where": "/".join(str(part) for part in item["loc"]), "detail": item["msg"]} for item in error.errors()[:100]
    ]
    detail = "; ".join(f"{item['where']}: {item['detail']}" for item in wrong[:3])
    return problem(422, "invalid-request", errors.InvalidRequest.title, detail, {"errors": wrong})


async def _refusal_of_key(request: Request) -> errors.Refusal | None:
    """Why the caller is not recognised, if so. FastAPI parses a body before it asks for the API key. Where the body
    cannot be read, the key is asked for here, so that callers without one get 401 and learn nothing else."""
    try:
        await require_key(request)
    except errors.Refusal as refusal:
        return refusal
    return None


async def _http(request: Request, error: Exception) -> JSONResponse:
    """What FastAPI or Starlette refuse by themselves, as problems; and what `server/body.py` refuses."""
    assert isinstance(error, HTTPException)  # noqa: S101
    if isinstance(error, Interrupted):
        late = isinstance(error.refusal, refusals.BodyTimeout)
        return refused(error.refusal if late else await _refusal_of_key(request) or error.refusal)
    detail = _HTTP_DETAILS.get(error.status_code, str(error.detail))
    if error.status_code == 400:
        return refused(await _refusal_of_key(request) or errors.InvalidRequest(detail))
    phrase = HTTPStatus(error.status_code).phrase
    slug = phrase.lower().replace(" ", "-")
    answer = problem(error.status_code, slug, phrase, detail)
    answer.headers.update(error.headers or {})
    if error.status_code == 405:
        # All methods that the path takes: Starlette names those of its first route, which may not be the only one.
        here = [route for route in request.app.all_routes if route.matches(request.scope)[0] is not Match.NONE]
        methods = sorted({method for route in here for method in route.methods})
        if methods:
            answer.headers["Allow"] = ", ".join(methods)
    return answer


_HTTP_DETAILS = {
    400: "The body could not be read. Send JSON in UTF-8, not deeply nested, with numbers of ordinary length.",
    404: "There is nothing at this path; /docs lists what there is.",
    405: "This path does not take this method; /docs lists what it takes.",
}

# For FastAPI: refusals, and what FastAPI and Starlette refuse by themselves, are answered as problems.
HANDLERS: dict[int | type[Exception], Callable[[Request, Any], Any]] = {
    errors.Refusal: lambda _request, refusal: refused(refusal),
    RequestValidationError: _invalid,
    HTTPException: _http,
}
