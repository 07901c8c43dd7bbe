"""One person more, from a file to the stored counters: nothing changes but what that person brings.

In a file one person more moves every later cut between requests, so this also shows that cuts do not matter.
"""

from pathlib import Path

import pytest

from tests.client.conftest import Counts, Discreet, Rows, Sent, as_csv, everybody


def _worlds(batch: int) -> tuple[Rows, Rows]:
    """Rows of people, sorted, without and with one person more, who comes first and so moves every cut.

    Two requests of people who saw one page, the same, are followed by one of people with twenty pages each that nobody
    else saw. A server that folded each request as a whole would take one count from "/home" for all the strangers of a
    request together; one person more puts the strangers of each request into two, and so takes another count each time.
    """
    rows = []
    for n in range(30 * batch):
        saw_the_same = n // batch % 3 < 2
        pages = ["/home", "/home"] if saw_the_same else [f"/{n}/{page}" for page in range(20)]
        rows += [(f"u{n:04}", page) for page in pages]
    return rows, [("a", "/home"), ("a", "/x"), *rows]


@pytest.mark.parametrize("batch", [1, 2, 7, 100])
def test_one_person_more_changes_nothing_else_of_what_is_sent(
    discreet: Discreet, sketch_of_users: str, sent: Sent, tmp_path: Path, batch: int
) -> None:
    worlds = []
    for number, rows in enumerate(_worlds(batch)):
        file = tmp_path / f"{number}.csv"
        file.write_text(as_csv(rows))
        sent.clear()
        assert discreet("ingest", str(file), "--sketch", sketch_of_users, "--batch", str(batch)).status == 0
        worlds.append(everybody(sent))
    without, with_one = worlds
    assert with_one == [{"user": "a", "keys": ["/home", "/x"]}, *without]


@pytest.mark.parametrize("batch", [1, 2, 7, 100])
@pytest.mark.parametrize("k", [1, 16])
def test_one_person_more_moves_stored_counters_by_one_and_in_one_direction(
    discreet: Discreet, sketch: str, counters: Counts, tmp_path: Path, k: int, batch: int
) -> None:
    """cor:merged-user-level, through the whole way from a file to the database, wherever requests are cut."""
    stored = []
    for number, rows in enumerate(_worlds(batch)):
        file, name = tmp_path / f"{number}.csv", f"{sketch}-{number}"
        file.write_text(as_csv(rows))
        parameters = ("--k", str(k), "--ledger", sketch, "--unit", "user", "--max-contributions", "20")
        assert discreet("sketches", "create", name, *parameters).status == 0
        assert discreet("ingest", str(file), "--sketch", name, "--batch", str(batch)).status == 0
        stored.append(counters(name))
    without, with_one = stored
    assert without
    moved = {with_one.get(key, 0) - without.get(key, 0) for key in without.keys() | with_one.keys()}
    assert moved <= {0, 1} or moved <= {0, -1}
