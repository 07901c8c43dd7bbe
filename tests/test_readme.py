"""What the README shows runs as it stands, and its figures are those of the service.

Its `sh` blocks run here, those on backups in `tests/operations/test_backup.py`, and the demonstration at its top in
`tests/client/test_demo.py`. The other blocks need a value of the reader's own, or an engine that tests do not have: of
these the words are checked.
"""

import re
import shutil
from pathlib import Path

import pytest

from app.cli import main
from app.core.comparison import compare
from app.core.ledger.budget import Cost
from app.core.mechanisms import pmg
from app.core.planner import Question
from app.server.problems import PROBLEMS
from app.settings import Settings
from tests.conftest import ADMIN_KEY
from tests.readme import README, blocks, run, section
from tests.server import running

_ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(shutil.which("curl") is None, reason="the tour uses curl, which is not on this machine")
def test_every_command_of_the_tour_works(database_url: str, tmp_path: Path) -> None:
    commands = "\n".join(blocks(section("A tour with curl"), "sh"))
    with running(database_url) as server:
        done = run(commands.replace("curl -sS", r"curl -sS -w '\n'"), tmp_path, URL=server.url, KEY=ADMIN_KEY)
    answers = [line for line in done.stdout.splitlines() if line]
    refusals = [line for line in answers if "urn:discreet:problem" in line]
    assert len(refusals) == 1
    assert "budget-exhausted" in refusals[0]
    assert '{"accepted":1502}' in answers
    assert '{"accepted":3}' in answers
    assert "key,count,low,high" in answers
    assert "/secret-offer" not in done.stdout
    assert '"scopes":["ingest"]' in answers[-1]
    assert (tmp_path / "histogram.svg").read_text().startswith("<svg")


def test_the_commands_work_one_after_the_other(tmp_path: Path) -> None:
    (commands,) = blocks(section("By command"), "sh")
    with running(f"sqlite:///{tmp_path}/discreet.db") as server:
        done = run(commands, tmp_path, DISCREET_URL=server.url, DISCREET_KEY=ADMIN_KEY)
    assert done.stderr == ""
    assert "1,501 events" in done.stdout
    assert len(re.findall(r"^/home .*1,[12]\d\d ", done.stdout, re.MULTILINE)) == 2  # of the release, and read again
    assert "/secret-offer" not in done.stdout
    assert "secret, shown only now  dsk_" in done.stdout


def test_each_block_runs_or_names_what_exists() -> None:
    """`sh` blocks are all in sections that a test runs; in the others, make's targets and our commands are real."""
    ran = [
        block
        for title in ("A tour with curl", "By command", "Backup and restore")
        for block in blocks(section(title), "sh")
    ]
    assert blocks(README, "sh") == ran
    targets = set(re.findall(r"^([a-z-]+):", (_ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {*re.findall(r"(?:^|`|\$ )make ([a-z-]+)", README, re.MULTILINE)} <= targets
    for words in _commands():
        with pytest.raises(SystemExit) as stopped:
            main([*words, "--help"])
        assert stopped.value.code == 0, words
    compose = (_ROOT / "compose.yaml").read_text()
    for name in ("POSTGRES_PASSWORD", "DISCREET_ADMIN_KEY"):
        assert f"{name}=…" in section("Deploying with PostgreSQL")
        assert f"${{{name}:?" in compose


def _commands() -> set[tuple[str, ...]]:
    """What is written as a command of ours, up to its first option, name or file."""
    found = re.findall(r"(?:^|`)discreet ([a-z]+)(?: ([a-z]+))?", README, re.MULTILINE)
    assert ("ledger", "verify") in found
    grouped = ("ledger", "ledgers", "sketches", "keys")
    return {(first, second) if first in grouped and second else (first,) for first, second in found}


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README)
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^##+ (.*)$", README, re.MULTILINE)
    }
    for link in links:
        if link.startswith("#"):
            assert link[1:] in anchors, link
        elif "://" not in link:
            assert (_ROOT / link).exists(), link


def test_refusals_have_the_status_that_the_service_gives() -> None:
    named = set(re.findall(r"(?<!\d)([45]\d\d) `([a-z-]+)`", README))
    assert len(named) >= 4
    assert named <= {(str(status), slug) for status, slug in PROBLEMS.values()}


def test_the_example_snapshot_has_the_true_parameters() -> None:
    calibrated = pmg.calibrate(1024, Cost.charged(epsilon="0.5", delta="1e-6"))
    bound = calibrated.error_bound(0.05, 2000)
    assert f'"threshold": {calibrated.threshold}' in README
    assert (
        f'"noise_low": {bound.noise_low}, "noise_high": {bound.noise_high}, "sketch_low": {bound.sketch_low}' in README
    )


def test_the_figures_in_the_text_are_true() -> None:
    assert f"{pmg.calibrate(1024, Cost.charged(epsilon='1', delta='1e-6')).threshold} at ε = 1, δ = 1e-6" in README
    question = Question(
        family="stream",
        k=1024,
        max_contributions=5,
        sources=1,
        universe_size=None,
        cost=Cost.charged(epsilon="1", delta="1e-6"),
        beta=0.05,
        expected_events=None,
    )
    compared = compare(question, 5)
    assert compared is not None
    cuts = [offer.calibrated.threshold for offer in (compared.by_events, compared.by_users)]
    assert f"events are cut at {cuts[0]} and sets at {cuts[1]};" in README
    assert f"from m = {compared.turns_at} on the sets are better" in README


def test_the_table_of_settings_is_complete_and_has_the_defaults() -> None:
    rows = re.findall(r"^\| (`DISCREET_.*?) \| (.*?) \|", README, re.MULTILINE)
    shown = {name: default for names, default in rows for name in re.findall(r"`DISCREET_(\w+)`", names)}
    fields = Settings.__dataclass_fields__
    assert shown.keys() == {name.upper() for name in fields}
    single = {names: default for names, default in rows if "," not in names}
    for names, default in single.items():
        value = getattr(Settings(), names.strip("`").removeprefix("DISCREET_").lower())
        assert value is None or default.replace("`", "").split(" ")[0] == str(value), names
    assert "`127.0.0.1`, `8000`, `1`" in shown["HOST"]
