"""discreet ingest: its options. What it does is in `client/ingest`."""

from argparse import ArgumentTypeError, Namespace

from app.client.commands.common import SKETCH, Group, add_command, show
from app.client.connection import Api
from app.client.ingest.batches import MOST_ITEMS
from app.client.ingest.formats import FORMATS, Columns
from app.client.ingest.sending import Job, send_files
from app.client.terminal.progress import Progress

_LONGEST_RESUME_KEY = 200  # characters; an idempotency key is it with the numbers of file and batch behind


def add(commands: Group) -> None:
    """Add `ingest`, which sends files to a sketch."""
    ingest = add_command(
        commands,
        "ingest",
        "send files of events to a sketch, each event once",
        _ingest,
        more="For a sketch of users, rows that name a user are gathered into people: sort each file by user, and keep "
        "all rows of a person in one file. It is read to its end before anything is sent, and refused if it is not "
        "sorted. After a break, run the same command again with the same API key: nothing is counted twice. A "
        "file that has changed since is another file; --resume-key tells that it is the same.",
    )
    ingest.add_argument("files", nargs="+", metavar="FILE", help="also gzip or zstd; - is standard input")
    ingest.add_argument("--sketch", required=True, help=SKETCH)
    ingest.add_argument("--column", metavar="NAME", help="column or member that holds the key; default: key")
    ingest.add_argument(
        "--count-column", metavar="NAME", help="how many events a row stands for; not for a sketch of users"
    )
    ingest.add_argument("--user-column", metavar="NAME", help="whose event it is; for a sketch of users, sort by it")
    ingest.add_argument(
        "--user-order", choices=("text", "number"), default="text", help="how rows are sorted by user; default: text"
    )
    ingest.add_argument("--format", choices=FORMATS, default="auto", help="default: by the name, or how it begins")
    ingest.add_argument(
        "--batch", type=_batch, default=10_000, metavar="N", help="events, or people, in a request; default: 10000"
    )
    ingest.add_argument("--resume-key", type=_resume_key, metavar="PREFIX", help="begins the idempotency keys")
    ingest.add_argument("--patience", type=float, default=60, metavar="SECONDS", help="for a busy server; default: 60")


def _batch(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_ITEMS:
        raise ArgumentTypeError(f"must be a whole number from 1 to {MOST_ITEMS}")
    return int(text)


def _resume_key(text: str) -> str:
    if not (text.isascii() and text.isprintable() and " " not in text and 1 <= len(text) <= _LONGEST_RESUME_KEY):
        raise ArgumentTypeError(f"must have 1 to {_LONGEST_RESUME_KEY} printable ASCII characters without spaces")
    return text


def _ingest(api: Api, options: Namespace) -> None:
    job = Job(
        files=options.files,
        sketch=options.sketch,
        columns=Columns(options.column, options.count_column, options.user_column),
        file_format=options.format,
        batch_size=options.batch,
        resume_key=options.resume_key,
        user_order=options.user_order,
    )
    api.patience = options.patience
    with Progress(options.sketch) as progress:
        api.on_wait = progress.say
        sent = send_files(api, job, progress)
    show(options, {"accepted": sent.items}, lambda: f"{sent} are in {options.sketch}.")
