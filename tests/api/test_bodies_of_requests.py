"""Requests in JSON: what cannot be read, what is not what it should be, and who is told so."""

import httpx2
import pytest

from tests.api.calls import problem

_UNREADABLE = {
    "not JSON": b"{",
    "not UTF-8": b'{"epsilon": "\xff"}',
    "nested too deep": b"[" * 100_000,
    "a number of absurd length": b'{"epsilon": ' + b"1" * 5000 + b"}",
}
_TOO_LARGE = b" " * 300_000
_JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("body", _UNREADABLE.values(), ids=_UNREADABLE)
def test_a_body_that_cannot_be_read_is_invalid(client: httpx2.Client, body: bytes) -> None:
    response = client.put("/v1/ledgers/marketing", content=body, headers=_JSON)
    assert response.status_code == 422
    assert problem(response) == "invalid-request"


@pytest.mark.parametrize("body", [*_UNREADABLE.values(), _TOO_LARGE], ids=[*_UNREADABLE, "too large"])
@pytest.mark.parametrize("key", ["", "Bearer not-a-key"])
def test_who_has_no_key_is_told_that_and_nothing_about_the_body(client: httpx2.Client, body: bytes, key: str) -> None:
    response = client.put("/v1/ledgers/marketing", content=body, headers=_JSON | {"Authorization": key})
    assert response.status_code == 401
    assert problem(response) == "unauthenticated"


@pytest.mark.parametrize("difference", [-1, 1])
def test_a_body_of_another_length_than_declared_does_nothing(client: httpx2.Client, difference: int) -> None:
    body = b'{"epsilon": "1", "delta": "0"} '
    headers = _JSON | {"Content-Length": str(len(body) + difference)}
    response = client.put("/v1/ledgers/marketing", content=body, headers=headers)
    assert problem(response) == "invalid-request"
    assert problem(client.get("/v1/ledgers/marketing")) == "unknown-ledger"


@pytest.mark.parametrize("wrong", [True, False, "1024", "", [], 1.5])
def test_a_whole_number_is_written_as_one(client: httpx2.Client, wrong: object) -> None:
    body = {"k": 8, "epsilon": "0.5", "delta": "1e-6", "expected_events": 1000}
    assert client.post("/v1/plan", json=body).status_code == 200
    for member in ("k", "expected_events", "max_contributions", "universe_size"):
        assert problem(client.post("/v1/plan", json=body | {member: wrong})) == "invalid-request"


@pytest.mark.parametrize("wrong", ["", ".", " 1", "1 ", "1\n", "+1", "1_0", "١", "0x1", "e5", "Infinity", "NaN", True])
def test_an_amount_has_plain_digits(client: httpx2.Client, wrong: object) -> None:
    assert problem(client.put("/v1/ledgers/a", json={"epsilon": wrong, "delta": "0"})) == "invalid-request"


@pytest.mark.parametrize("right", ["1", "0.5", ".5", "1e-6", "1E-6", "1e+2", 1, 0.5])
def test_an_amount_may_be_a_number_or_a_decimal_string(client: httpx2.Client, right: object) -> None:
    assert client.put("/v1/ledgers/a", json={"epsilon": right, "delta": "0"}).status_code == 201


@pytest.mark.parametrize(
    ("path", "methods"),
    [("/v1/ledgers/a", "GET, PUT"), ("/v1/sketches/a", "DELETE, GET, PUT"), ("/v1/keys", "GET, POST"), ("/", "GET")],
)
def test_a_path_tells_all_the_methods_that_it_takes(client: httpx2.Client, path: str, methods: str) -> None:
    response = client.patch(path)
    assert problem(response) == "method-not-allowed"
    assert response.headers["allow"] == methods
