"""Refusals as RFC 9457 problems. One table says which status and slug each has; one handler renders it."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from app.core import errors

TYPE_PREFIX = "urn:discreet:problem:"
MEDIA_TYPE = "application/problem+json"

PROBLEMS: dict[type[errors.Refusal], tuple[int, str]] = {
    errors.BadBatch: (400, "bad-batch"),
    errors.BadState: (400, "bad-state"),
    errors.Unauthenticated: (401, "unauthenticated"),
    errors.Forbidden: (403, "forbidden"),
    errors.NoSnapshot: (404, "no-snapshot"),
    errors.UnknownKey: (404, "unknown-key"),
    errors.UnknownLedger: (404, "unknown-ledger"),
    errors.UnknownSketch: (404, "unknown-sketch"),
    errors.UnknownSnapshot: (404, "unknown-snapshot"),
    errors.NotAcceptable: (406, "not-acceptable"),
    errors.BudgetExhausted: (409, "budget-exhausted"),
    errors.Conflict: (409, "conflict"),
    errors.BodyTooLarge: (413, "body-too-large"),
    errors.UnsupportedMediaType: (415, "unsupported-media-type"),
    errors.InvalidNumber: (422, "invalid-number"),
    errors.InvalidRequest: (422, "invalid-request"),
    errors.KeyReused: (422, "key-reused"),
    errors.NoMechanism: (422, "no-mechanism"),
    errors.Unavailable: (503, "unavailable"),
}
_HEADERS: dict[int, dict[str, str]] = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}


class Problem(BaseModel):
    """RFC 9457. Further members depend on the type; `errors` lists what is wrong and where."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description=f"`{TYPE_PREFIX}` and a stable slug", examples=[f"{TYPE_PREFIX}unknown-sketch"])
    title: str = Field(examples=["No such sketch"])
    status: int = Field(examples=[404])
    detail: str = Field(description="What to change", examples=["There is no sketch named 'checkout'."])


class BudgetProblem(Problem):
    """A refusal that must not be retried as it stands. It depends on the ledgers alone."""

    requested: dict[str, str] = Field(examples=[{"epsilon": "0.5", "delta": "1e-6"}])
    remaining: list[dict[str, str]] = Field(examples=[[{"ledger": "checkout", "epsilon": "0.25", "delta": "9e-6"}]])
    largest_epsilon: str = Field(description="The largest ε that fits now at the requested δ", examples=["0.25"])
    blocking: list[str] = Field(description="The ledgers that do not cover the request", examples=[["checkout"]])


def responses(*refusals: type[errors.Refusal]) -> dict[int | str, dict[str, Any]]:
    """OpenAPI responses for what an operation may refuse, beyond what every operation may."""
    by_status: dict[int | str, dict[str, Any]] = {}
    for refusal in refusals:
        status, slug = PROBLEMS[refusal]
        described = f"`{slug}`: {refusal.title}."
        if status in by_status:
            described = f"{by_status[status]['description']} {described}"
        model = BudgetProblem if refusal is errors.BudgetExhausted else Problem
        by_status[status] = {"description": described, "model": model, "content": {MEDIA_TYPE: {}}}
    return by_status


def problem(status: int, slug: str, title: str, detail: str, facts: Mapping[str, object] | None = None) -> JSONResponse:
    body = {"type": TYPE_PREFIX + slug, "title": title, "status": status, "detail": detail, **(facts or {})}
    return JSONResponse(body, status, headers=_HEADERS.get(status), media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    app.add_exception_handler(errors.Refusal, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


def _refused(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, errors.Refusal)  # noqa: S101  # registered for nothing else
    status, slug = PROBLEMS[type(error)]
    return problem(status, slug, error.title, error.detail, error.facts)


def _invalid(_request: Request, error: Exception) -> JSONResponse:
    """Where and why, never the value: it may be an event."""
    assert isinstance(error, RequestValidationError)  # noqa: S101
    wrong = [
        {"where": "/".join(str(part) for part in item["loc"]), "detail": item["msg"]} for item in error.errors()[:100]
    ]
    detail = "; ".join(f"{item['where']}: {item['detail']}" for item in wrong[:3])
    return problem(422, "invalid-request", errors.InvalidRequest.title, detail, {"errors": wrong})


def _http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101
    phrase = HTTPStatus(error.status_code).phrase
    slug = _HTTP_SLUGS.get(error.status_code, phrase.lower().replace(" ", "-"))
    answer = problem(error.status_code, slug, phrase, _HTTP_DETAILS.get(error.status_code, str(error.detail)))
    answer.headers.update(error.headers or {})
    return answer


_HTTP_SLUGS = {413: "body-too-large"}
_HTTP_DETAILS = {
    404: "There is nothing at this path; /docs lists what there is.",
    405: "This path does not take this method; /docs lists what it takes.",
}
