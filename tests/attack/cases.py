"""Requests for an operation, made from the OpenAPI document: its examples, the edges of every schema, and drawn ones.

The same each time: the edges are enumerated, and what is drawn comes from a fixed seed.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy
from schemathesis import BaseSchema, GenerationMode, SerializationContext

DOCUMENT = Path(__file__).parents[2] / "openapi" / "openapi.json"  # the app's own: tests/architecture/test_openapi.py

Case: TypeAlias = schemathesis.Case[Any]
Operation: TypeAlias = schemathesis.APIOperation[Any, Any, Any, Any]

_T = TypeVar("_T")


@schemathesis.serializer(
    "application/x-ndjson",
    "application/vnd.apache.parquet",
    "application/vnd.apache.arrow.stream",
)
def _as_it_is(_context: SerializationContext, value: Any) -> bytes:
    """What the document describes as a text or as bytes is sent as such, and a fault of another type as its JSON."""
    if isinstance(value, bytes):
        return value
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else json.dumps(value).encode()


def schema() -> BaseSchema:
    loaded = schemathesis.openapi.from_dict(json.loads(DOCUMENT.read_text()), config=schemathesis.Config(seed=1))
    loaded.config.generation.update(with_security_parameters=False)  # the tests send a key, or none
    return loaded


def labels() -> list[str]:
    """Such as `GET /v1/sketches`, in the order of the document."""
    paths = json.loads(DOCUMENT.read_text())["paths"]
    return [f"{method.upper()} {path}" for path, methods in paths.items() for method in methods]


def examples(operation: Operation) -> Iterator[Case]:
    """The document's own."""
    for strategy in operation.get_strategies_from_examples():
        yield from _drawn(strategy, 1)


def edges(operation: Operation) -> Iterator[Case]:
    """Values at and just beyond each bound, members left out and put in, wrong types, other methods."""
    generation = operation.schema.config.generation_for(operation=operation)
    yield from operation.schema.iter_coverage_cases(
        operation, generation_modes=list(GenerationMode), generation_config=generation
    )


def drawn(operation: Operation, number: int) -> Iterator[Case]:
    """So many that keep to the document, and so many that do not."""
    for mode in GenerationMode:
        if mode is GenerationMode.POSITIVE or operation.body or list(operation.iter_parameters()):
            yield from _drawn(operation.as_strategy(generation_mode=mode), number)


def _drawn(strategy: SearchStrategy[_T], number: int) -> list[_T]:
    found: list[_T] = []

    @seed(1)
    @settings(
        max_examples=number,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value: _T) -> None:
        found.append(value)

    collect()
    return found
