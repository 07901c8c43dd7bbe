"""A stored histogram of several pieces, without the events and the release that would lead to it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from sqlalchemy import insert
from sqlalchemy.orm import Session

from app.core.histogram import Bar, ErrorBound, Snapshot
from app.core.ledger.basis import SketchBasis, snapshot_digest
from app.store import sketches, snapshots
from app.store.dialects import moment
from app.store.tables import BarsRow
from app.usecases.context import Context

NUMBER = 700
SNAPSHOT = Snapshot(
    id="1" * 32,
    sketches=["views"],
    created_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    mechanism="pmg",
    theorem="thm:final_theorem",
    epsilon="0.5",
    delta="1e-6",
    beta="0.05",
    parameters={"noise": "discrete-laplace", "scale": "2", "threshold": 40, "k": 1024},
    error_bound=ErrorBound(below=22, above=24, sketch=1, unlisted=55),
    guarantee="Protects somebody.",
    charged=[{"ledger": "views", "epsilon": "0.5", "delta": "1e-6"}],
    remaining=[{"ledger": "views", "epsilon": "0.5", "delta": "9e-6"}],
)
OLD = replace(SNAPSHOT, id="2" * 32, sketches=["old"])
_IN_A_ROW = 120
_STRANGE = [
    '"',
    "\\",
    "\x00",
    "\x1b[31m",
    "\x7f\x9b",
    "é",
    "🙂",
    ",",
    "\r\n",
    "\u2028",
    "</script>",
    "\ud7ff",
    "\ue000",
]
BARS = sorted(
    (
        Bar(f"{at:04}{_STRANGE[at % len(_STRANGE)]}".ljust(500, "\x01"), 40 + at * 7 % 100, 1, None if at % 2 else at)
        for at in range(NUMBER)
    ),
    key=lambda bar: bar.key,
)


def store(context: Context) -> None:
    """As a release of the sketch `views`, which is there."""
    with context.database.writing() as session:
        snapshots.add(session, SNAPSHOT, BARS, bases_of(session, "views"))


def bases_of(session: Session, name: str) -> dict[int, SketchBasis]:
    """What the sketch of this name is now, by its id."""
    sketch_id = sketches.get_id(session, name)
    return dict(zip([sketch_id], sketches.bases(session, [sketch_id]), strict=True))


def store_by_key(context: Context, snapshot: Snapshot, bars: Sequence[Bar] = BARS) -> str:
    """As earlier versions stored a release of its sketch, which is there: by key, without ranks. Gives the digest that
    the ledger had of it."""
    with context.database.writing() as session:
        snapshots.add(session, snapshot, [], bases_of(session, *snapshot.sketches))
        for number, begin in enumerate(range(0, len(bars), _IN_A_ROW)):
            piece = bars[begin : begin + _IN_A_ROW]
            encoded = [bar.key.encode() for bar in piece]
            row = {
                "counts": [bar.count for bar in piece],
                "lows": [bar.low for bar in piece],
                "highs": [bar.high for bar in piece],
                "key_lengths": [len(key) for key in encoded],
                "keys": b"".join(encoded),
            }
            session.execute(insert(BarsRow), row | {"snapshot_id": snapshot.id, "number": number})
    return snapshot_digest(
        snapshot=snapshot.id,
        sketches=snapshot.sketches,
        created_at=moment(snapshot.created_at),
        document=snapshot.document(),
        bars=[(bar.key, bar.count, bar.low, bar.high) for bar in bars],
    )
