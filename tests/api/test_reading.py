"""Stored releases: options, formats, caching, paging."""

import csv
import io
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from fastapi.testclient import TestClient

from app.core.histogram import ErrorBound
from app.main import create_app
from app.settings import Settings
from app.store import snapshots
from app.usecases.context import Context
from tests.api.calls import create_sketch, post_events, problem, release
from tests.api.large import SNAPSHOT, bases_of
from tests.conftest import ADMIN_KEY

_PATH = "/v1/sketches/views/histogram"


@pytest.fixture(autouse=True)
def _released(client: TestClient) -> None:
    create_sketch(client, epsilon="50")
    post_events(client, [{"key": key, "count": count} for key, count in (("a", 3000), ("<b>", 2000), ("c", 1000))])
    assert release(client, epsilon="10").status_code == 201


def _keys(client: TestClient, query: str) -> list[str]:
    return [bar["key"] for bar in client.get(f"{_PATH}?{query}").json()["histogram"]]


def test_top_and_min_count_select_bars_and_order_sorts_them(client: TestClient) -> None:
    assert _keys(client, "") == ["a", "<b>", "c"]
    assert _keys(client, "top=2") == ["a", "<b>"]
    assert _keys(client, "top=1") == ["a"]
    assert _keys(client, "min_count=1500") == ["a", "<b>"]
    assert _keys(client, "min_count=1500&top=1") == ["a"]
    assert _keys(client, "order=key") == ["<b>", "a", "c"]
    assert _keys(client, "order=key&top=2") == ["<b>", "a"]
    assert _keys(client, "order=key&top=1") == ["a"]
    assert _keys(client, "order=count&min_count=1500") == ["a", "<b>"]
    for query in ("top=0", "order=size", "order="):
        assert problem(client.get(f"{_PATH}?{query}")) == "invalid-request"


def test_the_answer_of_a_release_is_in_the_order_in_which_it_is_read(client: TestClient) -> None:
    released = release(client, epsilon="10", key="1")
    assert [bar["key"] for bar in released.json()["histogram"]] == ["a", "<b>", "c"]
    assert client.get(_PATH).text == released.text == release(client, epsilon="10", key="1").text


def test_keys_can_be_named_and_of_those_without_a_bar_is_said_what_they_are_at_most(client: TestClient) -> None:
    whole = client.get(_PATH).json()
    bars = {bar["key"]: bar for bar in whole["histogram"]}
    named = client.get(_PATH, params={"key": ["c", "none", "a", "<b", "a"]}).json()
    at_most = whole["error_bound"].get("unlisted")
    assert named == whole | {
        "histogram": [bars["a"], bars["c"]],
        "unlisted": [{"key": "<b", "at_most": at_most}, {"key": "none", "at_most": at_most}],
    }
    by_key = client.get(_PATH, params={"key": ["a", "<b>"], "order": "key"}).json()
    assert by_key == whole | {"histogram": [bars["<b>"], bars["a"]], "unlisted": []}
    path = f"/v1/snapshots/{whole['id']}"
    assert client.get(path, params={"key": "a"}).json() == whole | {"histogram": [bars["a"]], "unlisted": []}


def test_named_keys_come_as_csv_and_the_listed_ones_as_a_picture(client: TestClient) -> None:
    asked = {"key": ["=none", "a"]}
    text = client.get(_PATH, params=asked, headers={"Accept": "text/csv"}).text
    listed, absent = csv.DictReader(io.StringIO(text))
    at_most = str(client.get(_PATH).json()["error_bound"].get("unlisted", ""))
    assert listed["key"] == "a"
    assert absent == {"key": "'=none", "count": "", "low": "0", "high": at_most}
    picture = client.get(_PATH, params=asked, headers={"Accept": "image/svg+xml"}).text
    assert "1 noisy counts, the largest first: a: " in picture
    assert "none" not in picture


def test_named_keys_are_at_most_a_hundred_and_keys_and_not_chosen_by_counts_too(client: TestClient) -> None:
    hundred = [f"k{number}" for number in range(100)]
    assert len(client.get(_PATH, params={"key": hundred}).json()["unlisted"]) == 100
    wrong: list[dict[str, str | int | list[str]]] = [
        {"key": [*hundred, "a"]},
        {"key": ""},
        {"key": "é" * 257},
        {"key": "a", "top": 1},
        {"key": "a", "min_count": 1},
    ]
    for asked in wrong:
        assert problem(client.get(_PATH, params=asked)) == "invalid-request"


def test_a_bound_that_is_not_known_is_null_and_an_empty_cell(client: TestClient, context: Context) -> None:
    snapshot = replace(SNAPSHOT, error_bound=ErrorBound(22, 24, None, None, "Of an earlier version."))
    with context.database.writing() as session:
        snapshots.add(session, snapshot, [], bases_of(session, "views"))
    path = f"/v1/snapshots/{snapshot.id}?key=a"
    assert client.get(path).json()["unlisted"] == [{"key": "a", "at_most": None}]
    assert client.get(path, headers={"Accept": "text/csv"}).text == "key,count,low,high\r\na,,0,\r\n"


def test_a_histogram_comes_as_csv(client: TestClient) -> None:
    answer = client.get(_PATH, headers={"Accept": "text/csv"})
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["key"] for row in rows] == ["a", "<b>", "c"]
    assert int(rows[0]["low"]) <= 3000 <= int(rows[0]["high"])


_LIKE_FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "＋1", "－1", "＠1", "'=1", "''"]
_HARMLESS = ["1=1", " =1", "a;=1", 'a"b', "a,b", "a\nb", "a\t=1", "日本"]


def test_no_cell_of_the_csv_is_a_formula_and_the_exact_key_can_be_had(client: TestClient) -> None:
    """A key that a spreadsheet would run has one apostrophe more, and so has every other that begins with one."""
    create_sketch(client, "pasted", epsilon="50")
    keys = sorted([*_LIKE_FORMULAS, *_HARMLESS])
    post_events(client, [{"key": key, "count": 1000} for key in keys], "pasted")
    release(client, "pasted", epsilon="10")
    text = client.get("/v1/sketches/pasted/histogram?order=key", headers={"Accept": "text/csv"}).text
    cells = [row[0] for row in csv.reader(io.StringIO(text, newline=""))][1:]
    assert [cell for cell in cells if cell[0] == "'"] == [f"'{key}" for key in keys if key in _LIKE_FORMULAS]
    assert [cell.removeprefix("'") for cell in cells] == keys
    assert '"a;=1",' in text  # else what stands behind a semicolon may be a cell of its own
    assert '"a\t=1",' in text


def test_a_histogram_comes_as_a_picture(client: TestClient) -> None:
    answer = client.get(_PATH, headers={"Accept": "image/svg+xml;q=0.9, application/json;q=0.1"})
    assert answer.headers["content-type"].startswith("image/svg+xml")
    texts = [element.text for element in ElementTree.fromstring(answer.text).iter() if element.tag.endswith("text")]
    assert "<b>" in texts


def test_a_browser_or_anything_gets_json_and_the_impossible_is_refused(client: TestClient) -> None:
    for accept in ("*/*", "text/html, application/json;q=0.5", "application/*"):
        assert client.get(_PATH, headers={"Accept": accept}).headers["content-type"] == "application/json"
    assert problem(client.get(_PATH, headers={"Accept": "text/html"})) == "not-acceptable"
    assert problem(client.get(_PATH, headers={"Accept": "text/csv;q=0"})) == "not-acceptable"


def test_what_the_client_has_is_not_sent_again(client: TestClient) -> None:
    etag = client.get(_PATH).headers["etag"]
    assert client.get(_PATH, headers={"If-None-Match": etag}).status_code == 304
    assert client.get(f"{_PATH}?top=1", headers={"If-None-Match": etag}).status_code == 200
    assert client.get(_PATH, headers={"If-None-Match": etag, "Accept": "text/csv"}).status_code == 200
    release(client)
    assert client.get(_PATH, headers={"If-None-Match": etag}).status_code == 200


def test_every_selection_and_order_has_a_validator_of_its_own(client: TestClient) -> None:
    queries = ["", "order=key", "top=3", "top=3&order=key", "min_count=3", "key=a", "key=a&order=key", "key=c"]
    queries += ["key=a&key=c", "key=ac", "key=a%22,%22c", "key=None"]
    etags = {query: client.get(f"{_PATH}?{query}").headers["etag"] for query in queries}
    assert len(set(etags.values())) == len(queries)
    for query, etag in etags.items():
        assert client.get(f"{_PATH}?{query}", headers={"If-None-Match": etag}).status_code == 304
    for same, query in (("order=count", ""), ("key=c&key=a&key=a", "key=a&key=c")):
        assert client.get(f"{_PATH}?{same}").headers["etag"] == etags[query]


def test_a_release_lists_so_many_bytes_of_keys_and_says_what_it_left_out(settings: Settings, context: Context) -> None:
    small = replace(context, max_histogram_bytes=4)  # "a" and "<b>", but not "c"
    with TestClient(create_app(settings, small), headers={"Authorization": f"Bearer {ADMIN_KEY}"}) as client:
        answer = release(client, epsilon="10", key="1")
        cut, whole = answer.json(), client.get("/v1/sketches/views/snapshots").json()["items"][1]
        assert [bar["key"] for bar in cut["histogram"]] == ["a", "<b>"]
        assert (cut["truncated"], whole["truncated"]) == (True, False)
        bound = cut["error_bound"]
        assert 1000 <= bound["unlisted"] < 1200  # of "c", which is not listed any more
        assert bound["unlisted"] > whole["error_bound"]["unlisted"]
        named = client.get(f"{_PATH}?key=c").json()
        assert named["unlisted"] == [{"key": "c", "at_most": bound["unlisted"]}]
        assert cut["charged"] == whole["charged"]
        assert release(client, epsilon="10", key="1").content == answer.content
        shown = [client.get(_PATH, headers={"Accept": accept}) for accept in ("text/csv", "image/svg+xml")]
        assert [each.headers["x-histogram-truncated"] for each in shown] == ["true", "true"]
        assert "nor the smallest above it" in shown[1].text
        earlier = client.get(f"/v1/snapshots/{whole['id']}")
        assert "x-histogram-truncated" not in earlier.headers


def test_snapshots_and_entries_page_without_loss(client: TestClient) -> None:
    for _ in range(4):
        release(client)
    for path, number in (("/v1/sketches/views/snapshots", 5), ("/v1/ledgers/views/entries", 7)):
        whole = client.get(path).json()
        assert len(whole["items"]) == number
        assert whole["cursor"] is None
        pieces, cursor = [], None
        while True:
            page = client.get(path, params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
            pieces += page["items"]
            cursor = page["cursor"]
            if cursor is None:
                break
        assert pieces == whole["items"]
    numbers = [item["created_at"] for item in client.get("/v1/sketches/views/snapshots").json()["items"]]
    assert numbers == sorted(numbers, reverse=True)


def test_names_page_without_loss(client: TestClient) -> None:
    for name in ("a_b", "a.b", "a-b", "ab"):
        create_sketch(client, name)
    names = []
    for path in ("/v1/sketches", "/v1/ledgers"):
        found, cursor = [], None
        while True:
            page = client.get(path, params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
            found += [item["name"] for item in page["items"]]
            cursor = page["cursor"]
            if cursor is None:
                break
        names.append(sorted(found))
    assert names == [["a-b", "a.b", "a_b", "ab", "views"]] * 2


@pytest.mark.parametrize("cursor", ["!!!", "é", "YWJj", "LTE=", "====", "AAAA"])
def test_a_made_up_cursor_is_refused_or_harmless(client: TestClient, cursor: str) -> None:
    assert problem(client.get("/v1/ledgers/views/entries", params={"cursor": cursor})) == "invalid-request"
    assert client.get("/v1/sketches", params={"cursor": cursor}).status_code in (200, 422)
