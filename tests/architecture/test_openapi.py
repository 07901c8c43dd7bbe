"""The OpenAPI document: written down, complete, and the same for every reader."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.main import build_context, create_app
from app.settings import Settings

WRITTEN = Path(__file__).parents[2] / "openapi" / "openapi.json"

Document = dict[str, Any]


@pytest.fixture
def document(tmp_path: Path) -> Iterator[Document]:
    settings = Settings(database_url=f"sqlite:///{tmp_path}/unused.db")
    context = build_context(settings)
    yield create_app(settings, context).openapi()
    context.database.close()


def operations(document: Document) -> dict[str, Document]:
    """By operationId."""
    return {each["operationId"]: each for methods in document["paths"].values() for each in methods.values()}


def refusals(document: Document) -> dict[tuple[str, str], Document]:
    """What operations answer with a status of 400 or more, by operationId and status."""
    return {
        (name, status): answer["content"]
        for name, operation in operations(document).items()
        for status, answer in operation["responses"].items()
        if status >= "400"
    }


def test_the_written_document_is_what_the_app_serves(document: Document) -> None:
    assert json.loads(WRITTEN.read_text()) == document, "run: make openapi"


def test_every_operation_has_words_a_tag_and_a_short_verb_for_a_name(document: Document) -> None:
    tags = {tag["name"] for tag in document["tags"]}
    for name, operation in operations(document).items():
        assert re.fullmatch(r"[a-z]+(_[a-z]+){0,2}", name)
        assert operation["summary"], name
        assert operation["description"], name
        assert len(operation["tags"]) == 1, name
        assert set(operation["tags"]) <= tags, name


def test_every_tag_has_a_line_and_stands_where_its_operations_first_come(document: Document) -> None:
    used = [operation["tags"][0] for operation in operations(document).values()]
    assert [tag["name"] for tag in document["tags"]] == list(dict.fromkeys(used))
    assert all(tag["description"] and "\n" not in tag["description"] for tag in document["tags"])


def test_an_operation_with_a_key_documents_how_it_refuses_one(document: Document) -> None:
    keyed = {name: "security" in operation for name, operation in operations(document).items()}
    documented = {
        name: {"401", "403"} <= set(operation["responses"]) for name, operation in operations(document).items()
    }
    assert keyed == documented
    assert [name for name, needs_key in keyed.items() if not needs_key] == ["livez", "readyz"]


def test_refusals_are_problems_and_nothing_else(document: Document) -> None:
    for where, content in refusals(document).items():
        model = "BudgetProblem" if where == ("create_snapshot", "409") else "Problem"
        assert list(content) == ["application/problem+json"], where
        assert content["application/problem+json"]["schema"] == {"$ref": f"#/components/schemas/{model}"}, where
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_each_refusal_has_an_example_with_its_own_status_and_slug(document: Document) -> None:
    for (name, status), content in refusals(document).items():
        for slug, example in content["application/problem+json"]["examples"].items():
            assert example["value"]["status"] == int(status), name
            assert example["value"]["type"].endswith(f":{slug}"), name


@pytest.mark.parametrize("name", ["get_snapshot", "get_histogram"])
def test_a_histogram_comes_as_json_csv_or_a_picture(document: Document, name: str) -> None:
    content = operations(document)[name]["responses"]["200"]["content"]
    assert set(content) == {"application/json", "text/csv", "image/svg+xml"}
    assert content["application/json"]["schema"] == {"$ref": "#/components/schemas/SnapshotOut"}


def test_every_parameter_and_every_field_of_a_request_is_described(document: Document) -> None:
    parameters = {
        (name, parameter["name"]): parameter.get("description")
        for name, operation in operations(document).items()
        for parameter in operation.get("parameters", [])
    }
    fields = {
        (name, field): value.get("description")
        for name, schema in document["components"]["schemas"].items()
        if name.endswith("In")
        for field, value in schema["properties"].items()
    }
    assert [where for where, words in (parameters | fields).items() if not words] == []


def test_every_request_body_has_an_example(document: Document) -> None:
    """That each is accepted as it stands is shown in a browser: tests/api/test_swagger_ui.py."""
    bodies = {
        (name, media_type): "example" in body or body["schema"].get("format") == "binary"  # a file of bytes has none
        for name, operation in operations(document).items()
        for media_type, body in operation.get("requestBody", {}).get("content", {}).items()
    }
    assert [where for where, has_example in bodies.items() if not has_example] == []
