"""Stored releases: options, formats, caching, paging."""

import csv
import io
from xml.etree import ElementTree

import pytest
from fastapi.testclient import TestClient

from tests.api.calls import create_sketch, post_events, problem, release

_PATH = "/v1/sketches/views/histogram"


@pytest.fixture(autouse=True)
def _released(client: TestClient) -> None:
    create_sketch(client, epsilon="50")
    post_events(client, [{"key": key, "count": count} for key, count in (("a", 3000), ("<b>", 2000), ("c", 1000))])
    assert release(client, epsilon="10", expected_events=6000).status_code == 201


def _keys(client: TestClient, query: str) -> list[str]:
    return [bar["key"] for bar in client.get(f"{_PATH}?{query}").json()["histogram"]]


def test_top_and_min_count_select_bars_in_key_order(client: TestClient) -> None:
    assert _keys(client, "") == ["<b>", "a", "c"]
    assert _keys(client, "top=2") == ["<b>", "a"]
    assert _keys(client, "top=1") == ["a"]
    assert _keys(client, "min_count=1500") == ["<b>", "a"]
    assert _keys(client, "min_count=1500&top=1") == ["a"]
    assert problem(client.get(f"{_PATH}?top=0")) == "invalid-request"


def test_a_histogram_comes_as_csv(client: TestClient) -> None:
    answer = client.get(_PATH, headers={"Accept": "text/csv"})
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["key"] for row in rows] == ["<b>", "a", "c"]
    assert int(rows[1]["low"]) <= 3000 <= int(rows[1]["high"])


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
