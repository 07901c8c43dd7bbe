"""Each command does what its call does: words for people, the server's document with --json."""

import json
from pathlib import Path

import pytest

from tests.client.conftest import Discreet
from tests.conftest import ADMIN_KEY
from tests.server import Server


def _ingested(discreet: Discreet, sketch: str, folder: Path) -> None:
    file = folder / "keys.csv"
    file.write_text("key,count\n/home,1200\n/pricing,300\n/secret,1\n")
    assert discreet("ingest", str(file), "--sketch", sketch).status == 0


def test_sketches_are_made_shown_listed_closed_and_deleted(discreet: Discreet, sketch: str) -> None:
    shown = discreet("sketches", "show", sketch)
    assert f"sketch    {sketch}" in shown.out
    assert "protects  any one event" in shown.out
    assert discreet("sketches", "show", sketch, "--json").document["k"] == 64
    listed = discreet("sketches", "list")
    heading, *rows = listed.out.splitlines()
    assert heading.split() == ["name", "k", "unit", "m", "ledger", "ε", "left", "of", "δ", "left", "of", "closed"]
    assert any(row.startswith(sketch) for row in rows)
    document = discreet("sketches", "list", "--json").document
    assert sketch in [item["name"] for item in document["items"]]
    assert document["cursor"] is None
    assert "takes no more events" in discreet("sketches", "close", sketch).out
    assert "are erased" in discreet("sketches", "delete", sketch).out
    assert discreet("sketches", "show", sketch).status == 1


def test_every_parameter_of_a_sketch_can_be_given(discreet: Discreet, sketch: str, tmp_path: Path) -> None:
    words = tmp_path / "words"
    words.write_text("yes\nno\n")
    first = discreet(
        *("sketches", "create", f"{sketch}-u", "--ledger", sketch, "--unit", "user", "--max-contributions", "3"),
        *("--enforcement", "declared", "--description", "Who said what", "--universe-file", str(words), "--json"),
    ).document
    assert (first["unit"], first["max_contributions"], first["universe_size"]) == ("user", 3, 2)
    assert (first["ledger"]["name"], first["enforcement"]) == (sketch, "declared")
    second = discreet("sketches", "create", f"{sketch}-r", "--ledger", sketch, "--universe-range", "1", "9")
    assert "possible keys  9" in second.out


def test_sketches_are_merged(discreet: Discreet, sketch: str, tmp_path: Path) -> None:
    other = f"{sketch}-too"
    discreet("sketches", "create", other, "--k", "64", "--ledger", sketch)
    _ingested(discreet, other, tmp_path)
    merged = discreet("sketches", "merge", f"{sketch}-all", sketch, other, "--mode", "summed", "--json").document
    assert merged["family"] == "summed"
    assert merged["ledgers"] == [sketch]


def test_a_ledger_tells_what_was_spent(discreet: Discreet, sketch: str) -> None:
    name = f"{sketch}-budget"
    made = discreet("ledgers", "create", name, "--epsilon", "2", "--delta", "1e-5", "--max-contributions", "5")
    assert "total        ε = 2, δ = 1e-5" in made.out
    assert "up to 5, unit event" in made.out
    assert name in discreet("ledgers", "list").out
    changed = discreet(
        "ledgers", "set-budget", name, "--epsilon", "3", "--delta", "1e-5", "--reason", "Second quarter", "--json"
    )
    assert changed.document["total"]["epsilon"] == "3"
    entries = discreet("ledgers", "entries", name)
    assert "Second quarter" in entries.out
    assert [item["kind"] for item in discreet("ledgers", "entries", name, "--json").document["items"]] == [
        "open",
        "budget",
    ]
    assert "P ≤ e^0·Q" in discreet("ledgers", "report", name).out
    assert discreet("ledgers", "show", name, "--json").document["spent"]["epsilon"] == "0"


def test_a_zcdp_ledger_tells_what_is_proven_and_what_is_bookkeeping(discreet: Discreet, sketch: str) -> None:
    name = f"{sketch}-rho"
    discreet("ledgers", "create", name, "--epsilon", "2", "--delta", "1e-5", "--accountant", "zcdp")
    discreet("sketches", "create", f"{name}-views", "--k", "64", "--ledger", name)
    discreet("snapshot", f"{name}-views", "--epsilon", "0.1", "--delta", "1e-6")
    shown = discreet("ledgers", "show", name).out
    assert "(ρ = 0.005; no guarantee)" in shown
    said = " ".join(discreet("ledgers", "report", name).out.split())
    assert "P ≤ e^2·Q + 1e-5" in said
    assert "Bookkeeping: spent ε = 0." in said
    discreet("ledgers", "set-budget", name, "--epsilon", "3", "--delta", "1e-5", "--reason", "Second quarter")
    said = " ".join(discreet("ledgers", "report", name).out.split())
    assert "Entry 4, after a release, set the total to ε = 3, δ = 1e-5, which adds ε = 2." in said
    assert "P ≤ e^4." in said


def test_keys_are_made_listed_and_revoked(discreet: Discreet) -> None:
    made = discreet("keys", "create", "web shop", "--scope", "ingest", "--scope", "read", "--sketches", "page-*")
    assert "secret, shown only now  dsk_" in made.out
    key = discreet("keys", "create", "other", "--scope", "admin", "--json").document
    listed = discreet("keys", "list")
    assert "ingest, read" in listed.out
    assert key["secret"] not in listed.out
    assert "from now on" in discreet("keys", "revoke", key["id"]).out
    by_id = {item["id"]: item for item in discreet("keys", "list", "--json").document["items"]}
    assert by_id[key["id"]]["revoked_at"]
    refused = discreet("sketches", "list", "--key", key["secret"])
    assert refused.status == 1
    assert "unknown or revoked" in refused.err
    assert key["secret"] not in refused.err


def test_a_plan_is_made_for_a_sketch_or_for_parameters(discreet: Discreet, sketch: str) -> None:
    terms = ("--epsilon", "1", "--delta", "1e-6", "--expected-events", "1000")
    planned = discreet("plan", sketch, *terms)
    assert planned.out.startswith("mechanism")
    assert "auto would take pmg: ε = 1, δ = 1e-6." in planned.out
    ahead = discreet("plan", "--k", "1024", "--max-contributions", "5", *terms, "--json").document
    assert ahead["comparison"]
    assert "k = 2,048 would be free" in discreet("plan", "--k", "1024", *terms).out
    for wrong in ((), (sketch, "--k", "8")):
        assert discreet("plan", *wrong, *terms).status == 2


def test_advice_is_words_a_table_and_requests_that_can_be_sent(discreet: Discreet) -> None:
    ask = ("advise", "--events-per-day", "10000", "--smallest-count", "500", "--releases", "2", "--every", "week")
    told = discreet(*ask, "--days", "28", "--covers", "period", "--epsilon", "2", "--delta", "1e-6", "--total")
    found = discreet(
        *ask, "--days", "28", "--covers", "period", "--epsilon", "2", "--delta", "1e-6", "--total", "--json"
    )
    assert told.status == 0
    assert " ".join(told.out.split("\n\n")[0].split()) == found.document["words"]
    rows = [line.split()[0] for line in told.out.split("\n\n")[1].splitlines()]
    assert rows == ["change", "recommended", *(step["change"] for step in found.document["steps"])]
    assert f"PUT /v1/sketches/{{name}}            {json.dumps(found.document['requests']['create_sketch'])}" in told.out
    assert json.dumps(found.document["requests"]["create_snapshot"]) in told.out
    assert found.document["recommended"]["releases"] == 2
    assert found.document["recommended"]["budget"] == {"epsilon": "2", "delta": "1e-6"}


def test_advice_has_defaults_and_refusals(discreet: Discreet) -> None:
    usual = discreet("advise", "--events-per-day", "10000", "--json").document
    assert usual["recommended"]["releases"] == 365
    assert discreet("advise").status == 2
    refused = discreet("advise", "--events-per-day", "10000", "--releases", "1000", "--every", "hour")
    assert refused.status == 1
    assert "Release less often" in refused.err


def test_a_snapshot_is_paid_once_and_drawn(discreet: Discreet, sketch: str, tmp_path: Path) -> None:
    _ingested(discreet, sketch, tmp_path)
    ask = ("snapshot", sketch, "--epsilon", "0.5", "--delta", "1e-6", "--expected-events", "1501")
    first = discreet(*ask, "--idempotency-key", "monday", "--mechanism", "pmg")
    again = discreet(*ask, "--idempotency-key", "monday", "--mechanism", "pmg", "--json")
    listed = discreet("snapshots", sketch)
    assert f"{sketch} paid ε = 0.5, δ = 1e-6; it had ε = 999.5, δ = 0.000999 left." in first.out
    assert again.document["remaining"][0]["epsilon"] == "999.5"
    assert len(listed.out.splitlines()) == 2
    assert again.document["id"] in listed.out
    by_id = discreet("histogram", sketch, "--snapshot", again.document["id"], "--json")
    assert by_id.document == again.document


def test_a_histogram_is_bars_with_the_cut_and_the_guarantee(discreet: Discreet, sketch: str, tmp_path: Path) -> None:
    _ingested(discreet, sketch, tmp_path)
    discreet("snapshot", sketch, "--epsilon", "0.5", "--delta", "1e-6", "--expected-events", "1501")
    drawn = discreet("histogram", sketch)
    title, home, pricing, _, *words = drawn.out.splitlines()
    assert title.startswith(f"{sketch}: 2 keys, pmg, ε = 0.5, δ = 1e-6")
    assert home.startswith("/home     ███")
    assert pricing.startswith("/pricing  ███")
    assert home.count("█") > 3 * pricing.count("█")
    assert "┤" in home
    assert "Counts below 3" in words[0]
    assert "Protects any one event" in " ".join(words)
    assert "/secret" not in drawn.out
    assert max(map(len, drawn.out.splitlines())) <= 100
    assert "\x1b" not in drawn.out  # nobody watches
    assert discreet("histogram", sketch, "--top", "1").out.count("█ ") <= 1
    assert discreet("histogram", sketch, "--csv", "--min-count", "1000").out.startswith("key,count,low,high\r\n/home,")
    picture = tmp_path / "picture.svg"
    assert discreet("histogram", sketch, "--svg", str(picture)).out == ""
    assert picture.read_text().startswith("<svg")
    assert discreet("histogram", sketch, "--csv", "--json").status == 2


def test_a_refusal_is_one_sentence_and_status_1(discreet: Discreet, sketch: str) -> None:
    for command, words in (
        (("sketches", "show", "nowhere"), "There is no sketch named 'nowhere'."),
        (("histogram", sketch), "Nothing has been released yet; `discreet snapshot`"),
        (("snapshot", sketch, "--epsilon", "1001", "--delta", "0"), "epsilon"),
        (("ledgers", "show", "a/../b"), ""),
        (("sketches", "list", "--key", "not the key"), "Set DISCREET_KEY, or give --key."),
    ):
        refused = discreet(*command)
        assert (refused.status, refused.out) == (1, "")
        assert refused.err.startswith("discreet: ")
        assert refused.err.count("\n") == 1
        assert words in refused.err


def test_what_passes_the_budget_is_refused_with_what_would_fit(discreet: Discreet, sketch: str) -> None:
    discreet("sketches", "create", f"{sketch}-small", "--epsilon", "1", "--delta", "1e-5")
    refused = discreet("snapshot", f"{sketch}-small", "--epsilon", "2", "--delta", "1e-6")
    assert refused.status == 1
    assert "at most 1 fits" in refused.err


def test_a_wrong_command_is_status_2(discreet: Discreet, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in (
        ("sketches",),
        ("nonsense",),
        ("sketches", "list", "--url", "ftp://x"),
        ("keys", "list", "--url", "http://x:y"),
    ):
        wrong = discreet(*command)
        assert (wrong.status, wrong.out) == (2, "")
    odd = discreet("sketches", "list", "--key", "schlüssel\n")
    assert odd.status == 2
    assert "schlüssel" not in odd.err
    monkeypatch.delenv("DISCREET_KEY")
    assert "set DISCREET_KEY" in discreet("sketches", "list").err


def test_nobody_there_is_said_at_once(discreet: Discreet) -> None:
    away = discreet("sketches", "list", "--url", "http://127.0.0.1:1")
    assert away.status == 1
    assert "No server answers at http://127.0.0.1:1; check DISCREET_URL" in away.err


def test_the_key_is_not_in_the_help_nor_in_a_traceback(discreet: Discreet, server: Server) -> None:
    from app.client.connection import Api

    assert ADMIN_KEY not in repr(Api(server.url, ADMIN_KEY))
    for command in ((), ("sketches", "create"), ("snapshot",), ("ingest",)):
        shown = discreet(*command, "--help")
        assert shown.status == 0
        assert shown.out.isascii()  # for every terminal


def test_documents_are_json_whatever_the_names(discreet: Discreet, sketch: str) -> None:
    said = discreet("sketches", "create", f"{sketch}-x", "--ledger", sketch, "--description", "ünï ✓", "--json")
    assert json.loads(said.out)["description"] == "ünï ✓"


def test_several_sketches_are_planned_and_released_together_and_snapshots_added_up(
    discreet: Discreet, sketch: str, tmp_path: Path
) -> None:
    _ingested(discreet, sketch, tmp_path)
    other = f"{sketch}-other"
    discreet("sketches", "create", other, "--k", "64", "--epsilon", "1", "--delta", "1e-5")
    terms = ("--epsilon", "0.1", "--delta", "1e-6")
    k = discreet("sketches", "show", sketch, "--json").document["k"]
    assert k == 64
    assert "auto would take reduced-approx in mode summed: ε = 0.1" in discreet("plan", sketch, other, *terms).out
    made = discreet("snapshot", sketch, other, "--mode", "compact", *terms)
    assert f"{sketch}, {other}: " in made.out
    assert f"{other} paid ε = 0.1" in made.out
    again = ("snapshot", sketch, other, *terms, "--idempotency-key", "monday", "--json")
    assert discreet(*again).document == discreet(*again).document
    parts = [discreet("snapshot", name, *terms, "--json").document["id"] for name in (sketch, other)]
    added = discreet("sum", *parts)
    assert "the sum of 2 snapshots" in added.out
    assert "With probability 0.9025 every true count" in " ".join(added.out.split())
    assert discreet("sum", *parts, "--json").document["snapshots"] == parts
    assert discreet("sum", *parts, "--csv").out.startswith("key,count,low,high")
    for wrong in (("snapshot", sketch, "--mode", "summed", *terms), ("sum",), ("sum", *parts, "--csv", "--json")):
        assert discreet(*wrong).status == 2
