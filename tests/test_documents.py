"""What the documents show runs as it stands, what they link to exists, and their figures are those of the service.

The `sh` blocks of a page run here, one after the other against a server of its own; those on backups run in
`tests/operations/test_backup.py`, and the demonstration at the top of the README in `tests/client/test_demo.py`. The
other blocks need a value of the reader's own, or an engine that tests do not have: of these the words are checked.
"""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.api.advice_models import AdviceIn
from app.api.decoding.items import MAX_COUNT, MAX_KEY_BYTES
from app.cli import main
from app.core.advice import advise
from app.core.comparison import compare
from app.core.ledger.accountants import ACCOUNTANTS
from app.core.ledger.budget import Budget, Cost
from app.core.mechanisms import pmg
from app.core.planner import Question
from app.server import last_answers
from app.server.problems import PROBLEMS
from app.settings import Settings
from app.store.database import Database
from app.store.tables import SketchRow
from tests import books
from tests.conftest import ADMIN_KEY
from tests.documents import ALL, NOTES, PAGES, README, ROOT, Document, document, run
from tests.operations.serving import serving

pytestmark = pytest.mark.long

_RUN_HERE = {
    "README.md",
    "docs/tutorial.md",
    "docs/advice.md",
    "docs/sending-events.md",
    "docs/people.md",
    "docs/mechanisms.md",
    "docs/auditing.md",
    "docs/operations.md",
}
_RUN_ELSEWHERE = {"docs/backup.md"}

_with_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="pages use curl, which is not on this machine")


@dataclass(frozen=True)
class Ran:
    """What the commands of a page have printed."""

    printed: str

    @property
    def lines(self) -> list[str]:
        return [line for line in self.printed.splitlines() if line]

    @property
    def refused(self) -> list[str]:
        """The slugs of all refusals."""
        return re.findall(r'"type":"urn:discreet:problem:([a-z-]+)"', self.printed)


def _run(name: str, database_url: str, folder: Path) -> Ran:
    """All commands of a page, in a folder of its own, by an administrator of a server without data."""
    commands = "\n".join(document(name).blocks("sh")).replace("curl -sS", r"curl -sS -w '\n'")
    user_key_file = str(folder / "user.key")
    work = folder / "work"
    work.mkdir()
    with serving(database_url, user_key_file=user_key_file) as server:
        done = run(
            commands,
            work,
            check=False,
            URL=server.url,
            KEY=ADMIN_KEY,
            DISCREET_URL=server.url,
            DISCREET_KEY=ADMIN_KEY,
            DISCREET_DATABASE_URL=database_url,
            DISCREET_USER_KEY_FILE=user_key_file,
        )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return Ran(done.stdout)


@pytest.fixture
def sqlite_url(migrated_sqlite: Path, tmp_path: Path) -> str:
    path = tmp_path / "discreet.db"
    shutil.copy(migrated_sqlite, path)
    path.chmod(0o600)  # as the service makes it
    return f"sqlite:///{path}"


@_with_curl
def test_every_command_of_the_readme_works(database_url: str, tmp_path: Path) -> None:
    ran = _run("README.md", database_url, tmp_path)
    assert ran.refused == ["budget-exhausted"]
    assert '{"accepted":1502}' in ran.lines
    assert "key,count,low,high,share" in ran.lines
    assert "/secret-offer" not in ran.printed


@_with_curl
def test_every_command_of_the_tutorial_works(database_url: str, tmp_path: Path) -> None:
    ran = _run("docs/tutorial.md", database_url, tmp_path)
    assert ran.refused == ["budget-exhausted"]
    assert '{"accepted":1502}' in ran.lines
    assert '{"accepted":3}' in ran.lines
    assert "key,count,low,high" in ran.lines
    assert '"scopes":["ingest"]' in ran.printed
    assert (tmp_path / "work" / "histogram.svg").read_text().startswith("<svg")
    assert "1,501 events" in ran.printed
    drawn = re.findall(r"^/home .*1,[12]\d\d ", ran.printed, re.MULTILINE)
    assert len(drawn) == 3  # released, read again, and asked for by name
    assert "secret, shown only now  dsk_" in ran.printed
    by_name, in_words = (line for line in ran.lines if "/secret-offer" in line)  # it is told of where it is asked for
    assert '"unlisted":[{"key":"/secret-offer","at_most":' in by_name
    assert in_words.startswith("/secret-offer is not reported: at most ")


@_with_curl
def test_every_command_on_advice_works(sqlite_url: str, tmp_path: Path) -> None:
    ran = _run("docs/advice.md", sqlite_url, tmp_path)
    assert ran.refused == []
    assert '"meets_smallest_count":true' in ran.printed
    assert "So the 500 that you asked for is met." in " ".join(ran.lines)


@_with_curl
def test_every_format_is_counted_and_what_is_sent_again_is_counted_once(sqlite_url: str, tmp_path: Path) -> None:
    ran = _run("docs/sending-events.md", sqlite_url, tmp_path)
    assert ran.refused == ["key-reused", "bad-batch"]
    database = Database(sqlite_url)
    counted = books.counters(database, "clicks")
    database.close()
    assert counted == {"/home": 1 + 1 + 1 + 20 + 1 + 1200, "/pricing": 3 + 3 + 1 + 4 + 1 + 300, "/checkout": 1}


@_with_curl
def test_people_are_counted_and_a_closed_sketch_takes_no_more(sqlite_url: str, tmp_path: Path) -> None:
    ran = _run("docs/people.md", sqlite_url, tmp_path)
    assert ran.refused == ["closed"]
    assert '"event_threshold":90,"user_threshold":420,"turns_at":22' in ran.printed
    assert "2 people" in ran.printed
    database = Database(sqlite_url)
    counted = [books.counters(database, name) for name in ("visits", "readers")]
    database.close()
    assert counted == [{"/home": 3}, {"/home": 3, "/pricing": 3}]


@_with_curl
def test_every_command_on_mechanisms_works(sqlite_url: str, tmp_path: Path) -> None:
    ran = _run("docs/mechanisms.md", sqlite_url, tmp_path)
    assert ran.refused == ["no-mechanism"]
    released = [re.findall(r'"mechanism":"([a-z-]+)"', line) for line in ran.lines if '"histogram":' in line]
    expected = ["pmg-gaussian", "reduced-pure", "reduced-approx", "reduced-approx"]
    assert [named[0] for named in released if named] == expected
    assert '"sketches":["north","south"],"mode":"summed"' in ran.printed
    assert '"unit":"event","beta":"0.049375"' in ran.printed
    assert '"ledgers":["north","south"]' in ran.printed


@_with_curl
def test_every_command_on_auditing_works(sqlite_url: str, tmp_path: Path) -> None:
    ran = _run("docs/auditing.md", sqlite_url, tmp_path)
    assert ran.refused == []
    assert ran.lines.count("The ledgers are intact.") == 2
    assert '"statement":"For any two data sets' in ran.printed
    assert '"remaining":{"epsilon":"0.25"' in ran.lines[-1]


@_with_curl
def test_every_command_on_operations_works(sqlite_url: str, tmp_path: Path) -> None:
    ran = _run("docs/operations.md", sqlite_url, tmp_path)
    assert ran.lines.count('{"status":"ok"}') == 2
    series = set(re.findall(r"^\| `(discreet_\w+)`", document("docs/operations.md").text, re.MULTILINE))
    shown = {re.sub(r"_(bucket|count|sum)$", "", name) for name in re.findall(r"^(discreet_\w+)", ran.printed, re.M)}
    assert shown <= series
    assert "ok       ledgers: Intact" in ran.printed


def test_every_block_of_commands_is_run() -> None:
    with_commands = {each.name for each in [*ALL, *NOTES] if each.blocks("sh")}
    assert with_commands == _RUN_HERE | _RUN_ELSEWHERE


def test_pages_can_be_followed_one_after_the_other_on_one_server() -> None:
    """Each makes sketches and ledgers of its own: a second with the same name would be refused, or find less budget."""
    made = [name for each in ALL for block in each.blocks("sh") for name in _made(block)]
    assert len(made) >= 12
    assert sorted(set(made)) == sorted(made)


def _made(commands: str) -> list[str]:
    """Names of the sketches and ledgers that commands make, with a loop's names in place of its variable."""
    names = re.findall(r'-X PUT "\$URL/v1/(?:sketches|ledgers)/([^"]+)"', commands)
    names += re.findall(r"^discreet (?:sketches|ledgers) create ([\w-]+)", commands, re.MULTILINE)
    names += re.findall(r'"\$URL/v1/sketches/([^"/]+)/merges"', commands)
    loops = {
        f"${variable}": values.split() for variable, values in re.findall(r"^for (\w+) in (.*); do$", commands, re.M)
    }
    return [name for found in names for name in loops.get(found, [found])]


def test_make_targets_and_commands_that_are_named_exist() -> None:
    text = "\n".join(each.text for each in ALL)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {*re.findall(r"(?:^|`|\$ )make ([a-z-]+)", text, re.MULTILINE)} <= targets
    for words in _commands(text):
        with pytest.raises(SystemExit) as stopped:
            main([*words, "--help"])
        assert stopped.value.code == 0, words


def _commands(text: str) -> set[tuple[str, ...]]:
    """What is written as a command of ours, up to its first option, name or file."""
    found = re.findall(r"(?:^|`)discreet ([a-z]+)(?: ([a-z]+))?", text, re.MULTILINE)
    assert ("ledger", "verify") in found
    grouped = ("ledger", "ledgers", "sketches", "keys")
    return {(first, second) if first in grouped and second else (first,) for first, second in found}


def test_compose_wants_the_secrets_that_operations_sets() -> None:
    compose = (ROOT / "compose.yaml").read_text()
    for name in ("POSTGRES_PASSWORD", "DISCREET_ADMIN_KEY"):
        assert f"{name}=…" in document("docs/operations.md").text
        assert f"${{{name}:?" in compose


@pytest.mark.parametrize("each", [*ALL, *NOTES], ids=lambda each: each.name)
def test_links_lead_somewhere(each: Document) -> None:
    for link in each.links():
        if "://" not in link:
            target, _, anchor = link.partition("#")
            path = (each.path.parent / target).resolve() if target else each.path
            assert path.exists(), link
            if anchor:
                assert anchor in document(path.relative_to(ROOT).as_posix()).anchors(), link


def test_every_page_can_be_reached_from_the_readme() -> None:
    known = {each.path: each for each in ALL}
    reached, waiting = set(), [README]
    while waiting:
        here = waiting.pop()
        if here.path not in reached:
            reached.add(here.path)
            targets = {(here.path.parent / link.partition("#")[0]).resolve() for link in here.links()}
            waiting += [known[target] for target in targets & known.keys()]
    assert {each.name for each in ALL} == {path.relative_to(ROOT).as_posix() for path in reached}


def test_paths_that_are_named_exist() -> None:
    """In documents between backticks; in code, pages with the heading that is quoted after them."""
    for each in [*ALL, *NOTES]:
        for path in re.findall(r"`((?:app|tests|docs|benchmarks|migrations|openapi|\.ci)/[\w./-]*)`", each.text):
            assert (ROOT / path).exists(), (each.name, path)
    for module in [*(ROOT / "app").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]:
        if module != Path(__file__):
            for page, heading in re.findall(r'\b(docs/[\w/-]+\.md)(?:, "([^"\n]+)")?', module.read_text()):
                assert not heading or heading in document(page).headings(), (module, page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_says_at_its_head_whom_it_is_for(page: Document) -> None:
    """A decision says instead when it was taken, and has three parts."""
    if page.path.parent.name == "decisions" and page.path.name != "README.md":
        assert re.match(r"# .+\n\n\*\d{4}-\d\d\. .+\*\n\n## Context\n", page.text)
        assert page.headings()[1:] == ["Context", "Decision", "Rejected"]
        assert page.path.name in document("docs/decisions/README.md").links()
    else:
        assert re.match(r"# .+\n\n\*For .+", page.text)


def test_refusals_have_the_status_that_the_service_gives() -> None:
    named = {found for each in ALL for found in re.findall(r"(?<!\d)([45]\d\d) `([a-z-]+)`", each.words)}
    given = {(str(status), slug) for status, slug in PROBLEMS.values()}
    last = [each for each in vars(last_answers).values() if isinstance(each, last_answers.LastAnswer)]
    given |= {(str(each.status), each.slug) for each in last}
    assert len(named) >= 15
    assert named <= given


def test_the_example_snapshot_has_the_true_parameters() -> None:
    calibrated = pmg.calibrate(1024, Cost.charged(epsilon="0.5", delta="1e-6"))
    bound = calibrated.noise_bound(0.05)
    (shown,) = document("docs/tutorial.md").blocks("json")
    assert f'"threshold": {calibrated.threshold}' in shown
    assert f'"below": {bound.below}, "above": {bound.above}, "sketch": ' in shown


def test_the_figures_in_the_text_are_true() -> None:
    threshold = pmg.calibrate(1024, Cost.charged(epsilon="1", delta="1e-6")).threshold
    assert f"{threshold} at ε = 1, δ = 1e-6" in document("docs/mechanisms.md").words
    question = Question(
        family="stream",
        k=1024,
        max_contributions=5,
        sources=1,
        universe_size=None,
        cost=Cost.charged(epsilon="1", delta="1e-6"),
        beta=0.05,
    )
    compared = compare(question, 5)
    assert compared is not None
    cuts = [offer.calibrated.threshold for offer in (compared.by_events, compared.by_users)]
    assert f"events are cut at {cuts[0]} and sets at {cuts[1]};" in document("docs/people.md").words
    assert f"from m = {compared.turns_at} on the sets are better" in document("docs/people.md").words
    total, tenth = Budget.granted(epsilon="6", delta="1e-5"), Cost.charged(epsilon="0.1", delta="1e-9")
    fits = {
        name: each.limit(total).how_many(each.price(tenth, tenth.epsilon**2 / 2)) for name, each in ACCOUNTANTS.items()
    }
    assert fits["basic"] == 60
    told = f"{fits['zcdp']} of ε = 0.1 into ε = 6 and δ = 1e-5, where `basic` stops at sixty"
    assert told in document("docs/threat-model.md").words


def test_the_figures_of_advice_are_true() -> None:
    rows = re.findall(r"^\| `(everything|period)`.*", document("docs/advice.md").text, re.MULTILINE)
    assert rows == ["everything", "period"]
    for covers in rows:
        body = AdviceIn.model_validate({"events_per_day": 1_000_000, "smallest_count": 500, "covers": covers})
        setup = advise(body.wish(), Settings().max_k).setup
        asked = setup.asked.as_strings()
        price = f"ρ = {asked['rho']}" if "rho" in asked else f"ε = {asked['epsilon']}"
        figures = f"{setup.smallest_likely_count:,} of {setup.need.events:,} events"
        row = f"| {setup.accountant} | {price}, δ = {asked['delta']} | {setup.k:,} | {figures} |"
        assert row in document("docs/advice.md").text


def test_every_mechanism_is_explained_and_leads_to_its_proof() -> None:
    rows = re.findall(r"^\| \[`([a-z-]+)`\]\(\S+/(\w+)\.md\) \|", document("docs/mechanisms.md").text, re.MULTILINE)
    requests = json.loads((ROOT / "openapi" / "openapi.json").read_text())["components"]["schemas"]["SnapshotIn"]
    assert {"auto", *(name for name, _ in rows)} == set(requests["properties"]["mechanism"]["enum"])
    assert all(name.replace("-", "_") == note for name, note in rows)


def test_the_limits_of_a_batch_are_those_of_the_service() -> None:
    settings, mebibyte = Settings(), 1024 * 1024
    text = document("docs/sending-events.md").text
    for said in (
        f"| {settings.max_body_bytes // mebibyte} MiB (`DISCREET_MAX_BODY_BYTES`)",
        f"| {settings.max_batch_items:,} (`DISCREET_MAX_BATCH_ITEMS`)",
        f"| 1 to {MAX_KEY_BYTES} bytes of UTF-8",
        f"| 1 to {MAX_COUNT:,} |",
        f"| {settings.body_seconds} s (`DISCREET_BODY_SECONDS`)",
        f"| {settings.max_waiting_bytes // mebibyte} MiB (`DISCREET_MAX_WAITING_BYTES`)",
    ):
        assert said in text


def test_the_table_of_settings_is_complete_and_has_the_defaults() -> None:
    rows = re.findall(r"^\| (`DISCREET_.*?) \| (.*?) \|", document("docs/operations.md").text, re.MULTILINE)
    shown = {name: default for names, default in rows for name in re.findall(r"`DISCREET_(\w+)`", names)}
    fields = Settings.__dataclass_fields__
    assert shown.keys() == {name.upper() for name in fields}
    single = {names: default for names, default in rows if "," not in names}
    for names, default in single.items():
        value = getattr(Settings(), names.strip("`").removeprefix("DISCREET_").lower())
        assert value is None or default.replace("`", "").split(" ")[0] == str(value), names
    assert "`127.0.0.1`, `8000`, `1`" in shown["HOST"]


def test_every_table_of_the_database_is_explained() -> None:
    stored = document("docs/architecture.md").text.partition("## What is stored")[2]
    assert set(SketchRow.metadata.tables) == set(re.findall(r"`([a-z_]+)`", stored))
