"""Without a valid key, an operation that wants one says so, and nothing else, whatever it is sent."""

from itertools import cycle

import pytest
from schemathesis import BaseSchema
from schemathesis.core.parameters import ParameterLocation

from tests.attack.cases import Case, drawn, edges, examples, labels
from tests.attack.conftest import Target

pytestmark = pytest.mark.long

_FEW = 2  # of each kind that are drawn
_CREDENTIALS = [None, "Bearer", "Bearer not-a-key", "Basic YWRtaW46YWRtaW4=", "Bearer dsk_0123456789abcdef_wrong"]
_OPEN = ["GET /livez", "GET /readyz"]


def test_only_health_needs_no_key(schema: BaseSchema) -> None:
    operations = {label: schema.find_operation_by_label(label) for label in labels()}
    assert [label for label, found in operations.items() if found and "security" not in found.definition.raw] == _OPEN


@pytest.mark.parametrize("label", [label for label in labels() if label not in _OPEN])
def test_the_answer_is_always_401(label: str, schema: BaseSchema, sqlite: Target) -> None:
    operation = schema.find_operation_by_label(label)
    assert operation is not None
    cases = [*examples(operation), *edges(operation), *drawn(operation, _FEW)]
    refused = [case for case, shown in zip(cases, cycle(_CREDENTIALS)) if _is_refused(case, shown, sqlite)]
    assert refused


def _is_refused(case: Case, shown: str | None, target: Target) -> bool:
    """Fails unless it is, where the request reaches the operation at all: paths and methods are no secret."""
    headers = {"Authorization": shown} if shown else {}
    response = case.call(base_url=target.server.url, session=target.connection, headers=headers, timeout=60)
    if response.status_code in (404, 405) and not _reaches_its_operation(case):
        return False
    case.validate_response(response)
    assert response.status_code == 401, case.as_curl_command()
    return True


def _reaches_its_operation(case: Case) -> bool:
    meta = case.meta
    return case.method == case.operation.method.upper() and not (
        meta is not None and meta.is_negative_at(ParameterLocation.PATH)
    )
