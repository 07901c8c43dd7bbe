"""Sketches that bound what a person contributes: what they ask for, what they count, and what they keep of anybody."""

import hashlib
import random
import struct
from base64 import b64encode, urlsafe_b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import MetaData, select

from app.main import build_context, create_app
from app.settings import Settings
from app.store.database import Database
from app.store.tables import AllowanceRow, RegisterRow
from app.usecases.context import Context
from tests import books
from tests.api.calls import post_events, problem, release
from tests.api.decoding.bodies import ARROW, CSV, JSON, LINES, PARQUET, SET_WRITERS, WRITERS, arrow, parquet
from tests.conftest import ADMIN_KEY
from tests.server import Server, start, wait_until_ready

EVENT_TYPES = [each for each in WRITERS if each != LINES]
EACH_EVENT_TYPE = pytest.mark.parametrize("content_type", EVENT_TYPES)
EACH_SET_TYPE = pytest.mark.parametrize("content_type", SET_WRITERS)


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    """With a key of the test's own."""
    return Settings(database_url=database_url, admin_key=ADMIN_KEY, user_key_file=str(tmp_path / "user.key"))


def create(client: httpx2.Client, name: str = "views", *, m: int = 5, k: int = 64, **more: Any) -> dict[str, Any]:
    payer = {} if "ledger" in more else {"budget": {"epsilon": "10", "delta": "1e-3"}}
    answer = client.put(f"/v1/sketches/{name}", json={"k": k, "max_contributions": m, **payer, **more})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def named(*items: tuple[str, str] | tuple[str, str, int]) -> list[dict[str, Any]]:
    return [{"user": item[0], "key": item[1], **({"count": item[2]} if len(item) == 3 else {})} for item in items]


def post_sets(client: httpx2.Client, sets: Sequence[Any], name: str = "views") -> httpx2.Response:
    return client.post(f"/v1/sketches/{name}/events", json={"users": list(sets)})


def post_body(client: httpx2.Client, content_type: str, body: bytes) -> httpx2.Response:
    return client.post("/v1/sketches/views/events", content=body, headers={"Content-Type": content_type})


def positions(refused: httpx2.Response) -> list[int]:
    assert problem(refused) == "bad-batch"
    return [error["position"] for error in refused.json()["errors"]]


# When it is enforced


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, "declared"),
        ({"max_contributions": 1}, "declared"),
        ({"max_contributions": 2}, "enforced"),
        ({"unit": "user"}, "enforced"),
        ({"unit": "user", "max_contributions": 5}, "enforced"),
        ({"max_contributions": 1, "enforcement": "enforced"}, "enforced"),
        ({"max_contributions": 5, "enforcement": "declared"}, "declared"),
        ({"unit": "user", "enforcement": "declared"}, "declared"),
    ],
)
def test_allowances_are_enforced_unless_one_event_is_the_unit_or_the_senders_vouch(
    client: TestClient, body: dict[str, Any], expected: str
) -> None:
    document = {"k": 8, "budget": {"epsilon": "1", "delta": "1e-3"}, **body}
    made = client.put("/v1/sketches/views", json=document)
    assert (made.status_code, made.json()["enforcement"]) == (201, expected)
    again = client.put("/v1/sketches/views", json={**document, "enforcement": expected})
    assert (again.status_code, again.json()) == (200, made.json())
    other = "declared" if expected == "enforced" else "enforced"
    assert problem(client.put("/v1/sketches/views", json={**document, "enforcement": other})) == "conflict"


@EACH_EVENT_TYPE
def test_events_without_a_user_are_refused_where_they_stand(
    client: TestClient, context: Context, content_type: str
) -> None:
    """A table names somebody in every row or in none."""
    create(client)
    events = [("a", 1), ("b", 1), ("c", 2)]
    some = ["u", None, None] if "json" in content_type else []
    refused = post_body(client, content_type, WRITERS[content_type](events, some))
    assert positions(refused) == ([1, 2] if some else [0, 1, 2])
    assert "name the user" in refused.json()["detail"]
    assert books.counters(context.database) == {}


def test_lines_name_nobody(client: TestClient) -> None:
    create(client)
    assert positions(post_body(client, LINES, b"a\nb\n")) == [0, 1]
    assert post_body(client, LINES, b"").json() == {"accepted": 0}


@EACH_SET_TYPE
def test_sets_without_a_user_are_refused_where_they_stand(client: TestClient, content_type: str) -> None:
    create(client, unit="user")
    body = SET_WRITERS[content_type]([("u", ["a"]), (None, ["a", "b"]), (None, ["c"])])
    assert positions(post_body(client, content_type, body)) == [1, 2]
    nobody = SET_WRITERS[content_type]([(None, ["a", "b"]), (None, ["c"])])
    assert positions(post_body(client, content_type, nobody)) == [0, 1]


@pytest.mark.parametrize(("content_type", "body"), [(CSV, b"user,key\nu,a\n"), (LINES, b"a\n")])
def test_rows_are_not_grouped_into_sets(client: TestClient, context: Context, content_type: str, body: bytes) -> None:
    """A person whose rows were cut into two requests would have two smaller sets."""
    create(client, unit="user")
    tables = {PARQUET: parquet, ARROW: arrow}
    rows = {kind: write(pa.table({"user": ["u"], "key": ["a"]})) for kind, write in tables.items()}
    for kind, sent in {content_type: body, **rows}.items():
        refused = post_body(client, kind, sent)
        assert problem(refused) == "bad-batch"
        assert "takes whole people" in refused.json()["detail"]
    assert books.counters(context.database) == {}


@EACH_EVENT_TYPE
def test_a_declared_sketch_takes_users_and_counts_all_the_same(
    client: TestClient, context: Context, content_type: str
) -> None:
    create(client, m=2, enforcement="declared")
    assert post_body(client, content_type, WRITERS[content_type]([("a", 3), ("b", 1)], ["u", "u"])).status_code == 200
    assert post_body(client, content_type, WRITERS[content_type]([("a", 1), ("b", 1)])).status_code == 200
    assert books.counters(context.database) == {"a": 4, "b": 2}


@pytest.mark.parametrize("content_type", [each for each in SET_WRITERS if "json" in each])
def test_a_declared_sketch_of_users_takes_sets_of_nobody_and_of_somebody_twice(
    client: TestClient, context: Context, content_type: str
) -> None:
    create(client, m=2, unit="user", enforcement="declared")
    body = SET_WRITERS[content_type]([("u", ["a"]), (None, ["a", "b", "c"]), ("u", ["a", "a", "b"])])
    assert post_body(client, content_type, body).json() == {"accepted": 3}
    assert books.counters(context.database) == {"a": 3, "b": 2}


@pytest.mark.parametrize("content_type", [PARQUET, ARROW])
def test_a_table_for_a_declared_sketch_of_users_names_somebody_in_every_row_or_in_none(
    client: TestClient, context: Context, content_type: str
) -> None:
    create(client, m=2, unit="user", enforcement="declared")
    write = SET_WRITERS[content_type]
    assert post_body(client, content_type, write([("u", ["a"]), ("u", ["a", "a", "b"])])).json() == {"accepted": 2}
    assert post_body(client, content_type, write([(None, ["a", "b", "c"])])).json() == {"accepted": 1}
    assert positions(post_body(client, content_type, write([("u", ["a"]), (None, ["a", "b"])]))) == [1]
    assert books.counters(context.database) == {"a": 3, "b": 2}


# What counts


@EACH_EVENT_TYPE
def test_a_user_counts_up_to_the_allowance_in_every_content_type(
    client: TestClient, context: Context, content_type: str
) -> None:
    create(client)
    events = [("a", 1), ("b", 7), ("c", 1), ("a", 2), *[("d", 1)] * 10]
    users = ["u", "v", "u", "u", *["u", "w"] * 5]
    for _ in range(2):
        answer = post_body(client, content_type, WRITERS[content_type](events, users))
        assert answer.content == b'{"accepted":%d}' % sum(count for _, count in events)
    assert books.counters(context.database) == {"a": 3, "b": 5, "c": 1, "d": 1 + 5}


@EACH_SET_TYPE
def test_a_person_counts_once_in_every_content_type(client: TestClient, context: Context, content_type: str) -> None:
    create(client, unit="user", m=2)
    first = [("u", ["c", "a", "b"]), ("v", ["a", "a"])]
    second = [("v", ["b"]), ("w", ["b", "c", "d"])]
    for sets in (first, first, second):
        body = SET_WRITERS[content_type](sets)
        assert post_body(client, content_type, body).content == b'{"accepted":2}'
    assert books.counters(context.database) == {"a": 2, "b": 1, "c": 2}


def test_names_are_told_apart_byte_by_byte_however_they_are_written(client: TestClient, context: Context) -> None:
    create(client, m=2)
    for user in ("u", "U", "u ", "é", "e\u0301", "\0", "x" * 512):
        post_events(client, named((user, "a", 5)))
    body = b'{"events":[{"user":"\\u0075","key":"b"},{"user":"\\u00e9","key":"b"},{"key":"b","user":"\\u0000"}]}'
    assert post_body(client, JSON, body).status_code == 200
    assert books.counters(context.database) == {"a": 14}


def test_receipts_are_the_same_bytes_whether_or_not_anything_counted(client: TestClient, context: Context) -> None:
    create(client)
    create(client, "sets", unit="user")
    answers = [post_events(client, named(("u", "a", 3), ("v", "a", 9), ("v", "b"))) for _ in range(4)]
    assert {(answer.status_code, answer.content) for answer in answers} == {(200, b'{"accepted":13}')}
    assert len({_headers(answer) for answer in answers}) == 1
    answers = [post_sets(client, [{"user": "u", "keys": list("abcdefg")}] * 2, "sets") for _ in range(3)]
    assert {(answer.status_code, answer.content) for answer in answers} == {(200, b'{"accepted":2}')}
    assert len({_headers(answer) for answer in answers}) == 1
    assert books.counters(context.database) == {"a": 3 + 5 + 2}
    assert books.counters(context.database, "sets") == dict.fromkeys("abcde", 1)


def _headers(answer: httpx2.Response) -> tuple[tuple[str, str], ...]:
    """But for the date and the number of the request, which is random."""
    varying = ("date", "x-request-id")
    return tuple(sorted((name, value) for name, value in answer.headers.items() if name not in varying))


# What is refused


@EACH_EVENT_TYPE
def test_a_person_with_too_much_takes_nobody_elses_events_along(
    client: TestClient, context: Context, content_type: str
) -> None:
    """Two worlds, with and without that person: the others count alike."""
    for name, more in (("views", 0), ("with", 1)):
        create(client, name, m=3)
        events, users = [("a", 2), *[("b", 900)] * more, ("a", 1), ("c", 1)], ["u", *["v"] * more, "u", "w"]
        body = WRITERS[content_type](events, users)
        answer = client.post(f"/v1/sketches/{name}/events", content=body, headers={"Content-Type": content_type})
        assert answer.status_code == 200
    assert books.counters(context.database, "with") == {**books.counters(context.database), "b": 3}


@EACH_SET_TYPE
def test_a_set_beyond_the_limit_takes_nobody_elses_along(
    client: TestClient, context: Context, content_type: str
) -> None:
    create(client, unit="user", m=2)
    body = SET_WRITERS[content_type]([("u", ["a", "b", "a"]), ("v", ["d", "e", "c"]), ("w", ["a"])])
    for _ in range(2):
        assert post_body(client, content_type, body).content == b'{"accepted":3}'
    assert books.counters(context.database) == {"a": 2, "b": 1, "d": 1, "e": 1}


# Several processes


@pytest.fixture
def servers(database_url: str) -> Iterator[list[Server]]:
    """Two workers; and, on PostgreSQL, a replica that was started on its own with the same key file."""
    servers = [start(database_url, workers=2)]
    if database_url.startswith("postgresql"):
        servers.append(start(database_url))
    try:
        for server in servers:
            wait_until_ready(server)
        yield servers
    finally:
        for server in servers:
            if server.process.poll() is None:
                server.kill()
            server.log.unlink()


def _spam(servers: list[Server], sender: int) -> Counter[str]:
    """Batches of which everybody in `eager` has far too much, some of them twice; what the others sent."""
    choice = random.Random(sender)
    honest: Counter[str] = Counter()
    with ExitStack() as open_clients:
        clients = [open_clients.enter_context(server.client()) for server in servers * 2]
        for number in range(8):
            own = f"honest-{sender}-{number}"
            items = named(*[(f"eager-{choice.randrange(4)}", f"k{number}") for _ in range(12)], (own, own, 7))
            choice.shuffle(items)
            honest[own] = 7
            for _ in range(choice.choice((1, 2))):
                answer = post_events(choice.choice(clients), items, key=f"{sender}-{number}")
                assert answer.content == b'{"accepted":19}'
    return honest


def test_over_several_processes_at_once_a_user_counts_up_to_the_allowance(
    servers: list[Server], database_url: str
) -> None:
    with servers[0].client() as client:
        create(client, m=7, k=256)
        create(client, "sets", unit="user", m=2)
    with ThreadPoolExecutor(6) as threads:
        honest: Counter[str] = sum(threads.map(lambda sender: _spam(servers, sender), range(6)), Counter())

        def send_set(number: int) -> None:
            with servers[number % len(servers)].client() as client:
                sets = [{"user": "u", "keys": ["a", "b", "c"]}, {"user": f"v{number}", "keys": ["b"]}]
                assert post_sets(client, sets, "sets").content == b'{"accepted":2}'

        list(threads.map(send_set, range(12)))
    database = Database(database_url)
    counted = books.counters(database)
    assert {key: count for key, count in counted.items() if key in honest} == honest
    assert sum(count for key, count in counted.items() if key not in honest) == 4 * 7
    assert books.counters(database, "sets") == {"a": 1, "b": 1 + 12}
    database.close()


# What is kept


_USERS = ["someone@example.org", "f47ac10b-58cc-4372-a567-0e02b2c3d479", "+45 12 34 56 78 90", "Zoë Æsop-Ωmega"]


def _forms(user: str) -> Iterator[bytes]:
    """What a name would look like in a dump: as it is, or as a hash that guesses can be tested with."""
    for text in (user.encode(), user.encode("utf-16-le"), user.encode("utf-16-be"), user.encode("latin-1", "ignore")):
        yield text
        yield text.hex().encode()
        yield text.hex().upper().encode()
        yield b64encode(text).rstrip(b"=")[:-1]  # the last one depends on what follows
        yield urlsafe_b64encode(text).rstrip(b"=")[:-1]
    for name in ("md5", "sha1", "sha256", "sha512", "blake2b", "blake2s", "sha3_256"):
        digest = hashlib.new(name, user.encode()).digest()
        yield from (digest[:8], digest[:8].hex().encode(), b64encode(digest)[:10])
    yield hashlib.blake2b(user.encode(), digest_size=12).digest()
    for scope in ("sketch/views", "views", "1"):
        yield hashlib.blake2b(user.encode(), key=scope.encode(), digest_size=12).digest()


def _dump(database: Database) -> bytes:
    """All tables, all columns; of SQLite also the files as they are."""
    tables = MetaData()
    parts: list[bytes] = []
    with database.reading() as session:
        tables.reflect(session.connection())
        assert len(tables.tables) > 8
        for table in tables.tables.values():
            for row in session.execute(select(table)):
                parts += [value if isinstance(value, bytes) else str(value).encode() for value in row]
    if database.engine.dialect.name == "sqlite":
        path = Path(str(database.engine.url.database))
        parts += [found.read_bytes() for found in path.parent.glob(f"{path.name}*")]
    return b"\n".join(parts)


def _prints(database: Database, scope: str) -> set[bytes]:
    with database.reading() as session:
        query = select(AllowanceRow.usages).join(RegisterRow, RegisterRow.id == AllowanceRow.register_id)
        rows = session.scalars(query.where(RegisterRow.name == scope)).all()
    return {person for usages in rows for person, _ in struct.iter_unpack("<12sH", usages)}


def test_a_dump_of_the_database_names_nobody_and_lets_no_guess_be_tested(
    client: TestClient, context: Context, settings: Settings
) -> None:
    create(client)
    create(client, "sets", unit="user", m=2)
    create(client, "declared", enforcement="declared")
    for number, user in enumerate(_USERS):
        post_events(client, named((user, "a", 3), (user, "b", 4)), key=f"request-{number}")
        post_events(client, named((user, "a", 3)), "declared")
        post_sets(client, [{"user": user, "keys": ["a", "b", "c"]}], "sets")
        assert post_sets(client, [{"user": user, "keys": []}], "sets").status_code == 400
    release(client)
    dump = _dump(context.database)
    assert b"request" in dump or b"views" in dump  # it can find something
    assert len(_prints(context.database, "sketch/views")) == len(_USERS)
    assert not _prints(context.database, "sketch/views") & _prints(context.database, "sketch/sets")
    for user in _USERS:
        for form in _forms(user):
            assert form not in dump, (user, form)
    text = Path(settings.user_key_file).read_text().strip()
    for secret in (text.encode(), bytes.fromhex(text), context.user_key.value, context.user_key.value.hex().encode()):
        assert secret not in dump


def test_a_dump_search_would_find_a_name() -> None:
    for user in _USERS:
        forms = list(_forms(user))
        for stored in (user.encode(), user.encode("utf-16-le"), hashlib.sha256(user.encode()).digest()):
            assert any(form in b"before" + stored + b"after" for form in forms)
            assert any(form in b64encode(stored) for form in forms)


def test_logs_name_nobody(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    create(client)
    for user in _USERS:
        post_events(client, named((user, "a", 3)))
        post_events(client, named((user, "a", 9)))
    assert not any(user in record.getMessage() for record in caplog.records for user in _USERS)


def test_a_refusal_quotes_no_user(client: TestClient) -> None:
    create(client)
    refused = post_events(client, [*named(("someone@example.org", "a", 9)), "an event of nobody"])
    assert positions(refused) == [1]
    assert "someone" not in refused.text


# Another key


def test_a_server_with_another_key_answers_503_and_counts_nothing(
    client: TestClient, context: Context, settings: Settings
) -> None:
    create(client)
    create(client, "declared", enforcement="declared")
    post_events(client, named(("u", "a", 3)))
    other = replace(settings, user_key="another key of at least thirty-two characters")
    with TestClient(create_app(other, build_context(other)), headers=dict(client.headers)) as elsewhere:
        for _ in range(2):
            refused = post_events(elsewhere, named(("u", "b"), ("v", "b")))
            assert (refused.status_code, problem(refused)) == (503, "wrong-user-key")
            assert refused.headers["retry-after"]
            assert "DISCREET_USER_KEY" in refused.json()["detail"]
        assert post_events(elsewhere, named(("u", "b")), "declared").status_code == 200
        assert release(elsewhere).status_code == 201
        assert elsewhere.post("/v1/sketches/views/close").status_code == 200
    assert books.counters(context.database) == {"a": 3}


def test_a_server_whose_key_is_missing_refuses_and_makes_no_other(
    client: TestClient, context: Context, settings: Settings
) -> None:
    """Under a new key everybody would have their allowance a second time."""
    create(client)
    post_events(client, named(("u", "a", 3)))
    key = Path(settings.user_key_file)
    content = key.read_text()
    key.unlink()
    ledger = {"epsilon": "1", "delta": "1e-3", "contributions": {"unit": "event", "max": 2}}
    with TestClient(create_app(settings, build_context(settings)), headers=dict(client.headers)) as again:
        refusals = [
            post_events(again, named(("u", "b"))),
            again.put(
                "/v1/sketches/new", json={"k": 8, "max_contributions": 2, "budget": {"epsilon": "1", "delta": "1e-3"}}
            ),
            again.put("/v1/ledgers/new", json=ledger),
        ]
        for refused in refusals:
            assert (refused.status_code, problem(refused)) == (503, "wrong-user-key")
            assert "Put it back" in refused.json()["detail"]
        assert not key.exists()
        key.write_text(content)
        assert post_events(again, named(("u", "b"))).status_code == 200
    assert books.counters(context.database) == {"a": 3, "b": 1}


def test_the_key_of_the_environment_comes_before_the_one_of_the_file(client: TestClient, settings: Settings) -> None:
    """The file is there; a server that is given its content counts on, and with any other it does not."""
    create(client)
    text = Path(settings.user_key_file).read_text().strip()
    for key, status in ((text, 200), (text[::-1], 503)):
        environment = {
            "DISCREET_DATABASE_URL": settings.database_url,
            "DISCREET_ADMIN_KEY": ADMIN_KEY,
            "DISCREET_USER_KEY": key,
            "DISCREET_USER_KEY_FILE": settings.user_key_file,
        }
        given = Settings.from_environment(environment)
        with TestClient(create_app(given, build_context(given)), headers=dict(client.headers)) as elsewhere:
            assert post_events(elsewhere, named(("u", "a"))).status_code == status


# What is promised


_PURE = {"universe": {"values": list("abcdefgh")}}


@pytest.mark.parametrize(
    ("body", "delta", "protects", "because"),
    [
        ({"max_contributions": 1}, "1e-6", "any one event", "a person who sent several is protected less"),
        ({"enforcement": "enforced"}, "1e-6", "all events of any one person", "counted at most 1 events of each user"),
        ({"max_contributions": 5}, "1e-6", "all events of any one person", "counted at most 5 events of each user"),
        (
            {"max_contributions": 5, "enforcement": "declared"},
            "1e-6",
            "all events of any one person",
            "Assumes that nobody sent more than 5 events",
        ),
        ({"unit": "user", "max_contributions": 5}, "1e-6", "all that any one person", "at most one set of 5 keys"),
        (
            {"unit": "user", "max_contributions": 5, "enforcement": "declared"},
            "1e-6",
            "all that any one person",
            "Assumes that nobody is in two sets, or in one of more than 5 keys",
        ),
        ({"max_contributions": 5, **_PURE}, "0", "all events of any one person", "counted at most 5 events"),
        ({"unit": "user", "max_contributions": 5, **_PURE}, "0", "all that any one person", "one set of 5 keys"),
    ],
)
def test_a_snapshot_says_what_it_protects_and_why(
    client: TestClient, body: dict[str, Any], delta: str, protects: str, because: str
) -> None:
    client.put("/v1/sketches/views", json={"k": 4, "budget": {"epsilon": "10", "delta": "1e-3"}, **body})
    answer = release(client, epsilon="1", delta=delta)
    assert answer.status_code == 201, answer.text
    said = answer.json()["guarantee"]
    assert f"Protects {protects}" in said
    assert because in said
    assert ("e^1 times as likely, plus 1e-6," in said) == (delta != "0")
    assert client.get(answer.headers["location"]).json()["guarantee"] == said


def test_a_plan_compares_both_units(client: TestClient) -> None:
    question = {"k": 1024, "epsilon": "1", "delta": "1e-6", "max_contributions": 5}
    by_events, by_users = (
        client.post("/v1/plan", json={**question, "unit": unit}).json() for unit in ("event", "user")
    )
    found = by_events["comparison"]
    assert found["event_threshold"] == 90 == by_events["mechanisms"][0]["parameters"]["threshold"]
    assert 400 < found["user_threshold"] <= 424
    assert found["user_threshold"] == by_users["mechanisms"][0]["parameters"]["threshold"]
    assert 20 <= found["turns_at"] <= 24
    assert f"It turns at m = {found['turns_at']}." in found["words"]
    assert by_users["comparison"] == found


def test_a_plan_for_users_does_not_depend_on_how_many_keys_they_have(client: TestClient) -> None:
    question = {"k": 64, "epsilon": "1", "delta": "1e-6", "unit": "user"}
    few, many = (client.post("/v1/plan", json={**question, "max_contributions": m}).json() for m in (1, 1000))
    assert few["mechanisms"] == many["mechanisms"]


def test_a_release_of_users_is_cut_where_its_plan_says(client: TestClient) -> None:
    create(client, unit="user", m=3, k=4)
    post_sets(client, [{"user": f"u{number}", "keys": ["everybody", f"k{number % 50}"]} for number in range(900)])
    terms = {"epsilon": "1", "delta": "1e-6"}
    planned = client.post("/v1/sketches/views/plan", json=terms).json()["mechanisms"][0]
    snapshot = release(client, **terms).json()
    assert snapshot["mechanism"] == planned["mechanism"]
    assert snapshot["parameters"] == planned["parameters"]
    assert [bar["key"] for bar in snapshot["histogram"]] == ["everybody"]
