"""A snapshot as JSON, CSV or SVG, as the Accept header asks, with an ETag: a stored release never changes.

Bars are read from the database, rendered and sent piece by piece, because there may be many of them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from hashlib import sha256
from typing import Any

from fastapi import Request, Response
from pydantic_core import to_json

from app.api.picture import MOST_BARS, svg
from app.api.release_outputs import SnapshotSummaryOut, SumSummaryOut
from app.core.histogram import Bar, Interval, Rest, Snapshot, TotalCount
from app.core.selection import Selection
from app.core.snapshot_sum import SnapshotSum
from app.refusals import NotAcceptable
from app.server.answers import Answer, Pieces, Readers
from app.usecases.context import Context
from app.usecases.read_bars import read_bars
from app.usecases.sum_snapshots import Sum

JSON = "application/json"
TRUNCATED = "X-Histogram-Truncated"  # for those who read no JSON

_FORM = 4  # counts up when the same release is written down differently: it is part of the ETag
_PIECE_BYTES = 64 * 1024
_RUN_BY_SPREADSHEETS = re.compile("[=+\\-@\t\r\n＝＋－＠']")  # at the beginning; or that look as if we had changed them
_QUOTED = re.compile('[",;\t\r\n]')  # the semicolon and the tab, because spreadsheets may take them for separators

Bars = Iterable[Sequence[Bar]]


def _json(snapshot: Snapshot | SnapshotSum, wanted: Selection, bars: Bars) -> Iterator[bytes]:
    about = SnapshotSummaryOut.of(snapshot) if isinstance(snapshot, Snapshot) else SumSummaryOut.of(snapshot)
    yield about.model_dump_json().removesuffix("}").encode() + b',"histogram":['
    separator, unlisted, total, rest = b"", set(wanted.keys), snapshot.total, Rest(snapshot.total)
    for some in bars:
        if some:
            yield separator + to_json(some if total is None else [_with_share(bar, total) for bar in some])[1:-1]
            separator = b","
            unlisted.difference_update(bar.key for bar in some)
            rest.take(some)
    yield b"]"
    other = rest.interval()
    if total is not None and other is not None:
        yield b',"other":' + to_json(_with_share(other, total))
    if wanted.keys:
        at_most = snapshot.error_bound.unlisted
        yield b',"unlisted":' + to_json([{"key": key, "at_most": at_most} for key in sorted(unlisted)])
    yield b"}"


def _csv(snapshot: Snapshot | SnapshotSum, wanted: Selection, bars: Bars) -> Iterator[bytes]:
    total, rest = snapshot.total, Rest(snapshot.total)
    yield b"key,count,low,high\r\n" if total is None else b"key,count,low,high,share\r\n"
    unlisted = set(wanted.keys)
    for some in bars:
        rows = (_line(bar.key, bar.count, bar.low, bar.high, *_shares(total, bar.count)) for bar in some)
        yield "".join(rows).encode()
        unlisted.difference_update(bar.key for bar in some)
        rest.take(some)
    at_most = snapshot.error_bound.unlisted
    yield "".join(_line(key, None, 0, at_most, *_shares(total, None)) for key in sorted(unlisted)).encode()
    other = rest.interval()
    if other is not None:  # in a row without a key, since "other" may be a key
        yield _line("", other.count, other.low, other.high, *_shares(total, other.count)).encode()


def _with_share(bar: Bar | Interval, total: TotalCount) -> dict[str, Any]:
    return {**asdict(bar), "share": total.share(bar.count)}


def _shares(total: TotalCount | None, count: int | None) -> list[float | None]:
    """The cell with a share, where the table has one."""
    return [] if total is None else [None if count is None else total.share(count)]


def _line(key: str, *numbers: float | None) -> str:
    return ",".join([_cell(key), *("" if number is None else str(number) for number in numbers)]) + "\r\n"


def _cell(key: str) -> str:
    """The key as a cell of RFC 4180. Spreadsheets run text that begins like a formula, and keys are whatever senders
    sent: such a key gets an apostrophe in front. So does a key that begins with an apostrophe, so that a reader who
    takes one apostrophe away always has the exact key."""
    safe = f"'{key}" if _RUN_BY_SPREADSHEETS.match(key) else key
    return '"' + safe.replace('"', '""') + '"' if _QUOTED.search(safe) else safe


def _svg(snapshot: Snapshot, wanted: Selection, bars: Bars) -> Iterator[bytes]:
    yield svg(snapshot, [bar for some in bars for bar in some], wanted.order).encode()


_OF_SUMS: dict[str, Callable[[Snapshot | SnapshotSum, Selection, Bars], Iterator[bytes]]] = {
    JSON: _json,
    "text/csv": _csv,
}
_RENDERERS: dict[str, Callable[[Snapshot, Selection, Bars], Iterator[bytes]]] = {**_OF_SUMS, "image/svg+xml": _svg}


def rendered(context: Context, readers: Readers, snapshot: Snapshot, request: Request, wanted: Selection) -> Response:
    """The wanted bars in the form that the client accepts; 304, without reading a bar, where the client has them."""
    media_type = _negotiated(request, _RENDERERS)
    named = sha256(to_json(sorted(wanted.keys))).hexdigest() if wanted.keys else ""  # they may be long, in any script
    asked = f"{wanted.order}-{wanted.top}-{wanted.min_count}-{named}"
    etag = f'"{snapshot.id}-{_FORM}-{media_type.partition("/")[2]}-{asked}"'
    headers = {"ETag": etag, "Vary": "Accept, Authorization", "Cache-Control": "private, no-cache"}
    if snapshot.truncated:
        headers[TRUNCATED] = "true"
    known = request.headers.get("if-none-match", "").split(",")
    if etag in (tag.strip().removeprefix("W/") for tag in known):  # a proxy may have weakened it
        return Response(status_code=304, headers=headers)
    if media_type == "image/svg+xml" and not wanted.keys:
        wanted = replace(wanted, top=min(wanted.top or MOST_BARS, MOST_BARS))
    return Answer(
        partial(_pieces, context, snapshot, media_type, wanted), readers, media_type=media_type, headers=headers
    )


def released(context: Context, readers: Readers, snapshot: Snapshot) -> Response:
    """All of a new snapshot as JSON, for the caller who has just paid for it."""
    return Answer(
        partial(_pieces, context, snapshot, JSON, Selection()),
        readers,
        media_type=JSON,
        headers={"Location": f"/v1/snapshots/{snapshot.id}"},
        status=201,
        paid=True,
    )


def added_up(context: Context, readers: Readers, added: Sum, request: Request, wanted: Selection) -> Response:
    """The wanted bars of a sum in the form that the client accepts. It is added up while it is answered."""
    media_type = _negotiated(request, _OF_SUMS)
    headers = {"Vary": "Accept, Authorization", "Cache-Control": "no-store"}
    if added.about.truncated:
        headers[TRUNCATED] = "true"

    def produce() -> Pieces:
        yield from _gathered(_OF_SUMS[media_type](added.about, wanted, added.bars(context, wanted)))

    return Answer(produce, readers, media_type=media_type, headers=headers)


def _pieces(context: Context, snapshot: Snapshot, media_type: str, wanted: Selection) -> Pieces:
    yield from _gathered(_RENDERERS[media_type](snapshot, wanted, read_bars(context, snapshot.id, wanted)))


def _gathered(written: Iterable[bytes]) -> Pieces:
    """What was written in pieces of about 64 KiB, so that many bars do not make many small writes."""
    waiting = bytearray()
    for some in written:
        waiting += some
        if len(waiting) >= _PIECE_BYTES:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)


def _negotiated(request: Request, possible: Iterable[str]) -> str:
    """The possible media type that the client likes best; of equals the first of ours, so `*/*` means JSON."""
    wanted = [_preference(part) for part in request.headers.get("accept", "*/*").split(",")]
    refused = {media_range for media_range, quality in wanted if quality <= 0}
    for media_range, quality in sorted(wanted, key=lambda pair: -pair[1]):
        for ours in possible:
            if quality > 0 and ours not in refused and media_range in ("*/*", f"{ours.partition('/')[0]}/*", ours):
                return ours
    raise NotAcceptable(f"Accept one of {', '.join(possible)}.")


def _preference(part: str) -> tuple[str, float]:
    """One part of an Accept header: its media range and its quality; 0, which refuses it, where `q` is no number."""
    media_range, *parameters = (piece.strip().lower() for piece in part.split(";"))
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return media_range, float(parameter[2:])
            except ValueError:
                return media_range, 0.0
    return media_range, 1.0
