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
        releases = [("create_snapshot", "409"), ("create_joint_snapshot", "409")]
        model = "BudgetProblem" if where in releases else "Problem"
        assert list(content) == ["application/problem+json"], where
        assert content["application/problem+json"]["schema"] == {"$ref": f"#/components/schemas/{model}"}, where
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_each_refusal_has_an_example_with_its_own_status_and_slug(document: Document) -> None:
    for (name, status), content in refusals(document).items():
        for slug, example in content["application/problem+json"]["examples"].items():
            assert example["value"]["status"] == int(status), name
            assert example["value"]["type"].endswith(f":{slug}"), name


def test_whatever_takes_a_body_documents_that_it_may_be_late_or_too_large(document: Document) -> None:
    for name, operation in operations(document).items():
        takes = "requestBody" in operation
        assert ({"408", "413"} <= set(operation["responses"])) == takes, name


def test_an_answer_documents_the_headers_that_it_is_useless_without(document: Document) -> None:
    wanted = {"401": "WWW-Authenticate", "429": "Retry-After", "503": "Retry-After", "304": "ETag"}
    for name, operation in operations(document).items():
        for status in wanted.keys() & operation["responses"].keys():
            assert list(operation["responses"][status]["headers"]) == [wanted[status]], (name, status)
    assert list(operations(document)["create_snapshot"]["responses"]["201"]["headers"]) == ["Location"]


def test_bounds_are_written_in_the_words_of_json_schema(document: Document) -> None:
    schemas = document["components"]["schemas"].values()
    fields = [field for schema in schemas for field in schema.get("properties", {}).values()]
    assert [field for field in fields if {"gt", "ge", "lt", "le"} & field.keys()] == []
    epsilon = document["components"]["schemas"]["SnapshotIn"]["properties"]["epsilon"]["anyOf"]
    assert epsilon[0] == {"type": "number", "exclusiveMinimum": 0, "maximum": 1000}
    assert epsilon[1]["pattern"]


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
    """That each is accepted as it stands is shown in a browser: tests/console/test_docs_page.py."""
    bodies = {
        (name, media_type): "example" in body or body["schema"].get("format") == "binary"  # a file of bytes has none
        for name, operation in operations(document).items()
        for media_type, body in operation.get("requestBody", {}).get("content", {}).items()
    }
    assert [where for where, has_example in bodies.items() if not has_example] == []
