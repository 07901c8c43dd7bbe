"""Send files into a sketch, so that a file that is sent twice counts once.

Batches and their idempotency keys follow from the file, the columns and the batch size alone. So the same command makes
the same batches under the same idempotency keys, and the service counts each once. The client remembers nothing.
"""

import hashlib
import json
import secrets
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain

from app.client.connection import Api, Problem, at
from app.client.failures import Failure
from app.client.ingest.batches import Batch, batches
from app.client.ingest.formats import BadRow, Columns, Item, Numbered, items
from app.client.ingest.input_files import InputFile, identity, open_input, shown_name
from app.client.ingest.people import Order, OutOfOrder, gathered, shortened, takes_people
from app.client.terminal.progress import Progress


@dataclass(frozen=True, slots=True)
class Job:
    """What to send where, as the options of the command say it."""

    files: list[str]
    sketch: str
    columns: Columns
    file_format: str
    batch_size: int
    resume_key: str | None
    user_order: Order = "text"


@dataclass(slots=True)
class Sent:
    """How much the server has accepted so far."""

    items: int = 0
    batches: int = 0
    counted: str = "events"  # the word for an item: "people" once a batch of them was sent

    def __str__(self) -> str:
        return f"{self.items:,} {self.counted} in {self.batches:,} batches"


class Broken(Failure):
    """Sending stopped midway. The text says where, why, and how to go on."""


def send_files(api: Api, job: Job, progress: Progress) -> Sent:
    """Send the files, one after the other, after all of them were checked as far as that is possible."""
    decoder = _FileDecoder(job, cache(lambda: takes_people(api, job.sketch)))
    _check(decoder, progress)
    progress.begin(job.sketch)
    sent = Sent()
    for position, name in enumerate(job.files, start=1):
        prefix, number = (job.resume_key, position) if job.resume_key else (_prefix(name, job), 1)
        try:
            _send_file(api, decoder, name, f"{prefix}-{number}", progress, sent)
        except OutOfOrder as unsorted:
            raise Broken(_how_to_go_on_sorted(name, unsorted, sent)) from None
        except BadRow as bad:
            raise Broken(_how_to_go_on(job, name, prefix, bad.line, bad.reason, sent)) from None
        except _Refused as refused:
            raise Broken(_how_to_go_on(job, name, prefix, refused.line, str(refused), sent)) from None
        except (Failure, KeyboardInterrupt) as failure:
            if isinstance(failure, Failure) and not sent.batches:
                raise  # nothing was counted, so there is nothing to go on from
            raise Broken(_how_to_go_on(job, name, prefix, None, str(failure) or "Stopped.", sent)) from None
    return sent


# Reading


@dataclass(frozen=True, slots=True)
class _FileDecoder:
    """Makes of files the items that the sketch takes: rows of a user become people if it is a sketch of users."""

    job: Job
    sketch_takes_people: Callable[[], bool]  # asks the server, so it is called only where the answer matters

    def read(self, file: InputFile) -> tuple[Iterator[Numbered], bool]:
        """The items of a file, and whether they are people gathered from its rows, which then must be sorted."""
        numbered = items(file, self.job.file_format, self.job.columns)
        first = next(numbered, None)
        if first is None:
            return numbered, False
        numbered = chain([first], numbered)
        if not _is_row_of_user(first[1], self.job.columns) or not self.sketch_takes_people():
            return shortened(numbered), False
        if self.job.columns.count:
            raise Failure(
                "A sketch of users counts each key of a person once, not how often: leave out --count-column."
            )
        return gathered(numbered, self.job.user_order), True


def _is_row_of_user(item: Item, columns: Columns) -> bool:
    """Whether the item is a row of (user, key), and neither a key alone nor a whole person with `keys`."""
    if isinstance(item, str):
        return columns.user is not None  # a column was named for users, and this row has nobody in it
    return "key" in item and (columns.user is not None or "user" in item)


def _check(decoder: _FileDecoder, progress: Progress) -> None:
    """Before anything is sent, refuse missing files, and files of people that are not sorted."""
    regular = [name for name in decoder.job.files if identity(name) is not None]  # pipes can be read only once
    for name in regular:
        try:
            with open_input(name) as file:
                people, are_gathered = decoder.read(file)
                if are_gathered:
                    progress.say("checking that the rows are sorted by user")
                    deque(people, maxlen=0)  # read to the end, keeping nothing
        except BadRow as bad:
            raise Failure(f"{_where(name, bad.line)}{bad.reason} Nothing was sent.") from None


# Sending


def _send_file(api: Api, decoder: _FileDecoder, name: str, prefix: str, progress: Progress, sent: Sent) -> None:
    with open_input(name) as file:
        numbered, are_gathered = decoder.read(file)
        for number, batch in enumerate(batches(numbered, decoder.job.batch_size), start=1):
            try:
                accepted = _send_batch(api, decoder.job.sketch, batch, f"{prefix}-{number}")
            except _Refused as refused:
                if not are_gathered or refused.line is None:
                    raise
                # The service names a person, and not which of their rows is bad.
                raise _Refused(refused.line, f"of the person whose rows begin here, {refused}") from None
            sent.items += accepted
            sent.batches += 1
            sent.counted = progress.counted = "people" if batch.member == "users" else "events"
            progress.advance(accepted, file.share_read)


class _Refused(Failure):
    """The service refuses a batch; `line` is where the first bad item begins, None if the service names no item."""

    def __init__(self, line: int | None, reason: str) -> None:
        self.line = line
        super().__init__(reason)


def _send_batch(api: Api, sketch: str, batch: Batch, idempotency_key: str) -> int:
    path = at("sketches", sketch, "events")
    try:
        answer = api.ask("POST", path, batch.body(), idempotency_key=idempotency_key)
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
    """How the idempotency keys begin: it follows from the file as it is now and the options; of a pipe it is random."""
    what = identity(name)
    if what is None:
        return secrets.token_hex(8)
    options = json.dumps([job.sketch, *job.columns.names, job.file_format, job.batch_size])
    return hashlib.sha256(f"{what}\0{options}".encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _how_to_go_on(job: Job, name: str, prefix: str, line: int | None, reason: str, sent: Sent) -> str:
    files = job.files if job.resume_key else job.files[job.files.index(name) :]
    again = f"run it again for {' '.join(files)}" if len(files) < len(job.files) else "run the same command again"
    correct = "" if line is None else "correct the line, "
    where = "" if reason.startswith(shown_name(name)) else _where(name, line)
    return (
        f"{where}{reason.rstrip('.')}. {sent} before it are counted. "
        f"To go on, {correct}{again} with the same API key and --resume-key {prefix}: nothing is counted twice."
    )


def _how_to_go_on_sorted(name: str, unsorted: OutOfOrder, sent: Sent) -> str:
    """Sorted rows make other batches, so a resume key would be of no use."""
    if not sent.batches:
        return f"{_where(name, unsorted.line)}{unsorted.reason} Nothing was sent."
    return (
        f"{_where(name, unsorted.line)}{unsorted.reason} {sent} before it are counted. To go on, send all the sorted "
        "rows anew: unless the sketch was made with --enforcement declared, whoever is counted already stays as "
        "they were counted, and nobody is counted twice."
    )


def _where(name: str, line: int | None) -> str:
    return f"{shown_name(name)}: " if line is None else f"{shown_name(name)}, line {line:,}: "
