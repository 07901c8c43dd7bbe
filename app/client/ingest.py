"""Files into a sketch, in batches whose idempotency keys follow from the file: sent twice, it counts once.

A batch is a function of the file, the columns and the batch size alone, so the same command makes the same batches
under the same keys, and the service counts each once. Nothing is remembered here.
"""

import hashlib
import json
import secrets
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain

from app.client.batches import Batch, batches
from app.client.connection import Api, Problem, at
from app.client.failures import Failure
from app.client.people import Order, OutOfOrder, gathered, shortened, takes_people
from app.client.progress import Progress
from app.client.readers import BadRow, Columns, Item, Placed, items
from app.client.sources import STDIN, Source, identity, opened


@dataclass(frozen=True, slots=True)
class Job:
    """What to send where, as the command said it."""

    files: list[str]
    sketch: str
    columns: Columns
    form: str
    batch: int
    resume_key: str | None
    user_order: Order = "text"


@dataclass(slots=True)
class Sent:
    """What the server has accepted."""

    items: int = 0
    batches: int = 0
    counted: str = "events"  # what an item is: "people" once a batch of them was sent

    def __str__(self) -> str:
        return f"{self.items:,} {self.counted} in {self.batches:,} batches"


class Broken(Failure):
    """Sending stopped; says where, why, and how to go on."""


def send(api: Api, job: Job, progress: Progress) -> Sent:
    """Send the files, one after the other. Files of people are checked first, all of them."""
    reader = _Reader(job, cache(lambda: takes_people(api, job.sketch)))
    _check(reader, progress)
    progress.begin(job.sketch)
    sent = Sent()
    for position, name in enumerate(job.files, start=1):
        prefix, place = (job.resume_key, position) if job.resume_key else (_prefix(name, job), 1)
        try:
            _send_file(api, reader, name, f"{prefix}-{place}", progress, sent)
        except OutOfOrder as unsorted:
            raise Broken(_told_unsorted(name, unsorted, sent)) from None
        except BadRow as bad:
            raise Broken(_told(job, name, prefix, bad.line, bad.reason, sent)) from None
        except _Refused as refused:
            raise Broken(_told(job, name, prefix, refused.line, str(refused), sent)) from None
        except (Failure, KeyboardInterrupt) as failure:
            if isinstance(failure, Failure) and not sent.batches:
                raise  # there is nothing to go on from
            raise Broken(_told(job, name, prefix, None, str(failure) or "Stopped.", sent)) from None
    return sent


# Reading


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads files as the items that the sketch takes."""

    job: Job
    sketch_takes_people: Callable[[], bool]  # asks the server, so it is called only where the answer matters

    def read(self, source: Source) -> tuple[Iterator[Placed], bool]:
        """The items of a file, and whether they are people gathered from its rows, which then must be sorted."""
        placed = items(source, self.job.form, self.job.columns)
        first = next(placed, None)
        if first is None:
            return placed, False
        placed = chain([first], placed)
        if not _is_row_of_somebody(first[1], self.job.columns) or not self.sketch_takes_people():
            return shortened(placed), False
        if self.job.columns.count:
            raise Failure(
                "A sketch of users counts each key of a person once, not how often: leave out --count-column."
            )
        return gathered(placed, self.job.user_order), True


def _is_row_of_somebody(item: Item, columns: Columns) -> bool:
    """A row of (user, key), unlike a key alone or a whole person with their `keys`."""
    if isinstance(item, str):
        return columns.user is not None  # the user is empty in this row
    return "key" in item and (columns.user is not None or "user" in item)


def _check(reader: _Reader, progress: Progress) -> None:
    """Find what can be found before anything is sent: missing files, and files of people that are not sorted."""
    regular = [name for name in reader.job.files if identity(name) is not None]  # the others can be read only once
    for name in regular:
        try:
            with opened(name) as source:
                people, are_gathered = reader.read(source)
                if are_gathered:
                    progress.say("checking that the rows are sorted by user")
                    deque(people, maxlen=0)  # read to the end, keeping nothing
        except BadRow as bad:
            raise Failure(f"{_place(name, bad.line)}{bad.reason} Nothing was sent.") from None


# Sending


def _send_file(api: Api, reader: _Reader, name: str, prefix: str, progress: Progress, sent: Sent) -> None:
    with opened(name) as source:
        placed, are_gathered = reader.read(source)
        for number, batch in enumerate(batches(placed, reader.job.batch), start=1):
            try:
                accepted = _send_batch(api, reader.job.sketch, batch, f"{prefix}-{number}")
            except _Refused as refused:
                raise refused.of_a_person() if are_gathered else refused from None
            sent.items += accepted
            sent.batches += 1
            sent.counted = progress.counted = "people" if batch.member == "users" else "events"
            progress.advance(accepted, source.share)


class _Refused(Failure):
    """A batch that the service refuses, with the line of its first bad item where it names one."""

    def __init__(self, line: int | None, reason: str) -> None:
        self.line = line
        super().__init__(reason)

    def of_a_person(self) -> "_Refused":
        """The service names a person by position, so it is not known which of their rows was meant."""
        begin = "" if self.line is None else "of the person whose rows begin here, "
        return _Refused(self.line, f"{begin}{self}")


def _send_batch(api: Api, sketch: str, batch: Batch, request_key: str) -> int:
    path = at("sketches", sketch, "events")
    try:
        answer = api.ask("POST", path, batch.body(), request_key=request_key)
    except Problem as problem:
        raise _located(problem, batch) from None
    accepted: int = answer.json()["accepted"]
    return accepted


def _located(problem: Problem, batch: Batch) -> Failure:
    bad = problem.document.get("errors")
    if problem.slug == "bad-batch" and isinstance(bad, list) and bad:
        return _Refused(batch.lines[bad[0]["position"]], str(bad[0]["detail"]))
    if problem.slug == "bad-batch":
        return _Refused(None, str(problem))
    if problem.slug == "key-reused":
        return Failure(
            "The server has counted other events under this resume key: the input or the options are not those of "
            "the earlier run."
        )
    return problem


# What a run is known by, and what is said when it breaks


def _prefix(name: str, job: Job) -> str:
    """From the file as it is now and the options; of a pipe, at random."""
    what = identity(name)
    if what is None:
        return secrets.token_hex(8)
    options = json.dumps([job.sketch, *job.columns.names, job.form, job.batch])
    return hashlib.sha256(f"{what}\0{options}".encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _told(job: Job, name: str, prefix: str, line: int | None, reason: str, sent: Sent) -> str:
    files = job.files if job.resume_key else job.files[job.files.index(name) :]
    again = f"run it again for {' '.join(files)}" if len(files) < len(job.files) else "run the same command again"
    correct = "" if line is None else "correct the line, "
    place = "" if reason.startswith(_shown(name)) else _place(name, line)
    return (
        f"{place}{reason.rstrip('.')}. {sent} before it are counted. "
        f"To go on, {correct}{again} with the same API key and --resume-key {prefix}: nothing is counted twice."
    )


def _told_unsorted(name: str, unsorted: OutOfOrder, sent: Sent) -> str:
    """Sorted rows make other batches, so no resume key leads on from here."""
    if not sent.batches:
        return f"{_place(name, unsorted.line)}{unsorted.reason} Nothing was sent."
    return (
        f"{_place(name, unsorted.line)}{unsorted.reason} {sent} before it are counted. To go on, send all the sorted "
        "rows anew: unless the sketch was made with --enforcement declared, whoever is counted already stays as "
        "they were counted, and nobody is counted twice."
    )


def _place(name: str, line: int | None) -> str:
    return f"{_shown(name)}: " if line is None else f"{_shown(name)}, line {line:,}: "


def _shown(name: str) -> str:
    return "standard input" if name == STDIN else name
