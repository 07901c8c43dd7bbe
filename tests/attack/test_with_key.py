"""Whatever an administrator sends to an operation, the answer is one that the OpenAPI document describes."""

import pytest
import requests
from schemathesis import BaseSchema, Response

from tests.attack.cases import Case, Operation, drawn, edges, examples, labels
from tests.attack.conftest import Target
from tests.attack.world import World
from tests.conftest import ADMIN_KEY

pytestmark = pytest.mark.long

_KEY = {"Authorization": f"Bearer {ADMIN_KEY}"}
_MANY, _FEW = 8, 3  # of each kind that are drawn
_SECONDS = 60


@pytest.mark.parametrize("label", labels())
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_every_answer_is_a_documented_one(
    label: str, database: str, schema: BaseSchema, request: pytest.FixtureRequest
) -> None:
    target: Target = request.getfixturevalue(database)
    operation = schema.find_operation_by_label(label)
    assert operation is not None
    with target.server.client() as client:
        world = World.made(client, f"w{labels().index(label)}")
    statuses = [_answered(case, number, target) for number, case in enumerate(world.settled(_cases(operation, target)))]
    assert any(200 <= status < 300 for status in statuses), "nothing was ever granted, so little was tried"


def _cases(operation: Operation, target: Target) -> list[Case]:
    if target.thorough:
        return [*examples(operation), *edges(operation), *drawn(operation, _MANY)]
    return [*examples(operation), *drawn(operation, _FEW)]


def _answered(case: Case, number: int, target: Target) -> int:
    """The status; fails unless the answer, and that to a reader who has it already, are as documented."""
    accepted = _media_types(case)
    headers = _KEY | {"Accept": accepted[number % len(accepted)]}
    response = _sent(case, headers, target)
    if "etag" in response.headers:
        known = _sent(case, headers | {"If-None-Match": response.headers["etag"][0]}, target)
        assert known.status_code == requests.codes.not_modified
    return response.status_code


def _sent(case: Case, headers: dict[str, str], target: Target) -> Response:
    return case.call_and_validate(
        base_url=target.server.url, session=target.connection, headers=headers, timeout=_SECONDS
    )


def _media_types(case: Case) -> list[str]:
    """What the operation can answer with, and something that it cannot."""
    granted = case.operation.definition.raw["responses"].get("200", {}).get("content", {})
    return [*granted, "text/html"]
