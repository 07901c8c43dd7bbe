"""A stored histogram of several pieces, without the events and the release that would lead to it."""

from datetime import UTC, datetime

from app.core.histogram import Bar, ErrorBound, Snapshot
from app.store import sketches, snapshots
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
    error_bound=ErrorBound(below=22, above=22, sketch=1, unlisted=55),
    guarantee="Protects somebody.",
    charged=[{"ledger": "views", "epsilon": "0.5", "delta": "1e-6"}],
    remaining=[{"ledger": "views", "epsilon": "0.5", "delta": "9e-6"}],
)
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
        (basis,) = sketches.bases(session, [sketches.get_id(session, "views")])
        snapshots.add(session, SNAPSHOT, BARS, {sketches.get_id(session, "views"): basis})
