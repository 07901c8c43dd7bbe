"""Files into a sketch, in batches whose idempotency keys follow from the file: sent twice, it counts once.

A batch is a function of the file, the columns and the batch size alone, so the same command makes the same batches
under the same keys, and the service counts each once. Nothing is remembered here.
"""

import csv
import hashlib
import io
import json
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from app.client.connection import JSON, Api, Problem, at
from app.client.failures import Failure
from app.client.progress import Progress
from app.client.readers import BadRow, Columns, Item, Placed, items
from app.client.sources import STDIN, identity, opened

_MOST_BYTES = 8 * 1024 * 1024  # of keys and users in a batch: half of what a server takes by default
_ITEM_BYTES = 32
_MOST_ITEMS = 100_000


@dataclass(frozen=True, slots=True)
class Job:
    """What to send where, as the command said it."""

    files: list[str]
    sketch: str
    columns: Columns
    form: str
    batch: int
    resume_key: str | None


@dataclass(slots=True)
class Sent:
    events: int = 0
    batches: int = 0


@dataclass(slots=True)
class _Batch:
    items: list[Item] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    size: int = 0

    def add(self, line: int, item: Item) -> None:
        self.items.append(item)
        self.lines.append(line)
        self.size += _ITEM_BYTES + _letters(item)

    def body(self) -> tuple[str, bytes]:
        """Content type and bytes. Named people without counts go as a table, which sketches of both units take."""
        kinds = {type(item) if isinstance(item, str) else frozenset(item) for item in self.items}
        if kinds == {frozenset({"key", "user"})}:
            return "text/csv", _table(self.items)
        member = "users" if any("keys" in kind for kind in kinds if isinstance(kind, frozenset)) else "events"
        return JSON, json.dumps({member: self.items}, ensure_ascii=False).encode()


class Broken(Failure):
    """Sending stopped; says where, why, and how to go on."""


def send(api: Api, job: Job, progress: Progress) -> Sent:
    for name in job.files:
        identity(name)  # what is missing is said before anything is sent
    sent = Sent()
    for position, name in enumerate(job.files, start=1):
        prefix, place = (job.resume_key, position) if job.resume_key else (_prefix(name, job), 1)
        try:
            _send_file(api, job, name, f"{prefix}-{place}", progress, sent)
        except BadRow as bad:
            raise Broken(_told(job, name, prefix, bad.line, bad.reason, sent)) from None
        except _Refused as refused:
            raise Broken(_told(job, name, prefix, refused.line, str(refused), sent)) from None
        except (Failure, KeyboardInterrupt) as failure:
            if isinstance(failure, Failure) and not sent.batches:
                raise  # there is nothing to go on from
            raise Broken(_told(job, name, prefix, None, str(failure) or "Stopped.", sent)) from None
    return sent


def _send_file(api: Api, job: Job, name: str, prefix: str, progress: Progress, sent: Sent) -> None:
    with opened(name) as source:
        for number, batch in enumerate(_batches(items(source, job.form, job.columns), job.batch), start=1):
            accepted = _send_batch(api, job.sketch, batch, f"{prefix}-{number}")
            sent.events += accepted
            sent.batches += 1
            progress.advance(accepted, source.share)


def _batches(placed: Iterable[Placed], most: int) -> Iterator[_Batch]:
    """Rows of a person that follow one another stay together: a sketch of users takes a person's set once."""
    batch = _Batch()
    for line, item in placed:
        full = len(batch.items) >= most or batch.size >= _MOST_BYTES
        if full and (_person(item) != _person(batch.items[-1]) or len(batch.items) >= _MOST_ITEMS):
            yield batch
            batch = _Batch()
        batch.add(line, item)
        if _person(item) is None and (len(batch.items) >= most or batch.size >= _MOST_BYTES):
            yield batch  # at once: the next item may be long in coming
            batch = _Batch()
    if batch.items:
        yield batch


class _Refused(Failure):
    """A batch that the service refuses, with the line of its first bad item where it names one."""

    def __init__(self, line: int | None, reason: str) -> None:
        self.line = line
        super().__init__(reason)


def _send_batch(api: Api, sketch: str, batch: _Batch, request_key: str) -> int:
    content_type, body = batch.body()
    path = at("sketches", sketch, "events")
    try:
        answer = api.ask("POST", path, body, content_type=content_type, request_key=request_key)
    except Problem as problem:
        raise _located(problem, batch) from None
    accepted: int = answer.json()["accepted"]
    return accepted


def _located(problem: Problem, batch: _Batch) -> Failure:
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


# Keys


def _prefix(name: str, job: Job) -> str:
    """From the file as it is now and the options; of a pipe, at random."""
    what = identity(name)
    if what is None:
        return secrets.token_hex(8)
    options = json.dumps([job.sketch, *job.columns.names, job.form, job.batch])
    return hashlib.sha256(f"{what}\0{options}".encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _told(job: Job, name: str, prefix: str, line: int | None, reason: str, sent: Sent) -> str:
    where = "standard input" if name == STDIN else name
    place = f"{where}: " if line is None else f"{where}, line {line:,}: "
    if reason.startswith(where):
        place = ""
    files = job.files if job.resume_key else job.files[job.files.index(name) :]
    again = f"run it again for {' '.join(files)}" if len(files) < len(job.files) else "run the same command again"
    correct = "" if line is None else "correct the line, "
    return (
        f"{place}{reason.rstrip('.')}. {sent.events:,} events in {sent.batches:,} batches before it are counted. "
        f"To go on, {correct}{again} with the same API key and --resume-key {prefix}: nothing is counted twice."
    )


# Bodies


def _person(item: Item) -> str | None:
    return None if isinstance(item, str) else item.get("user")


def _letters(item: Item) -> int:
    if isinstance(item, str):
        return len(item)
    return sum(len(value) if isinstance(value, str) else 16 for value in item.values()) + sum(
        map(len, item.get("keys", ()))
    )


def _table(rows: list[Item]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, ["user", "key"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(row for row in rows if isinstance(row, dict))
    return text.getvalue().encode()
