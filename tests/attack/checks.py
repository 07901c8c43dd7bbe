"""What must hold for every answer."""

import schemathesis
from schemathesis import BaseSchema, CheckContext, Response

from tests.attack.cases import Case

_CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "every_header_is_documented",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
]
# Left out: `ignored_auth`, for test_without_key.py asks more. `positive_data_acceptance`, for what has the right form
# may still mean nothing, such as a cursor that was never given out, or a sketch with two payers. `use_after_free` and
# `ensure_resource_availability`, for a deleted sketch's snapshots and ledger stay on purpose.
# `object_level_authorization`, for it wants two identities, as tests/api/test_keys.py has.

_OF_EVERY_ANSWER = {  # said by HTTP itself, or put on by the middleware: tests/api/test_nothing_leaks.py
    *("allow", "cache-control", "connection", "content-length", "content-type", "date", "vary"),
    *("content-security-policy", "referrer-policy", "x-content-type-options", "x-frame-options", "x-request-id"),
}


@schemathesis.check
def every_header_is_documented(_context: CheckContext, response: Response, case: Case) -> None:
    answer = case.operation.responses.find_by_status_code(response.status_code)
    documented = {name.lower() for name, _ in answer.headers.items()} if answer and answer.headers else set()
    unknown = set(response.headers) - _OF_EVERY_ANSWER - documented
    assert not unknown, f"undocumented headers: {', '.join(sorted(unknown))}"


def enable(schema: BaseSchema) -> None:
    schema.config.checks.update(included_check_names=_CHECKS)
