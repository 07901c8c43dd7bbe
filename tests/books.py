"""Read the ledger and the sketches behind the service's back, to check its promises."""

from dataclasses import dataclass

from sqlalchemy import func, select, update

from app.core.sketches.state import Sketch
from app.store import sketches, states
from app.store.database import Database
from app.store.tables import EntryRow, LedgerRow, SnapshotRow, StateRow


@dataclass(frozen=True)
class Books:
    spent: tuple[int, int]
    entries: tuple[int, int]  # summed
    payments: int
    snapshots: int
    unpaid: int  # snapshots without an entry

    def balance(self) -> None:
        """What must hold at any moment, whatever happened before."""
        assert self.spent == self.entries
        assert self.payments == self.snapshots
        assert self.unpaid == 0


def read(database: Database, ledger: str = "views") -> Books:
    with database.reading() as session:
        row = session.scalars(select(LedgerRow).where(LedgerRow.name == ledger)).one()
        epsilon, delta, payments = session.execute(
            select(func.sum(EntryRow.price), func.sum(EntryRow.delta), func.count()).where(
                EntryRow.ledger_id == row.id, EntryRow.kind == "release"
            )
        ).one()
        paid = select(EntryRow.snapshot_id).where(EntryRow.kind == "release")
        unpaid = session.scalar(select(func.count()).select_from(SnapshotRow).where(SnapshotRow.id.not_in(paid)))
        snapshots = session.scalar(select(func.count()).select_from(SnapshotRow))
        return Books(
            spent=(row.spent, row.delta_spent),
            entries=(int(epsilon or 0), int(delta or 0)),
            payments=payments,
            snapshots=snapshots or 0,
            unpaid=unpaid or 0,
        )


def stored(database: Database, sketch: str = "views") -> tuple[int, bytes]:
    """The token of a sketch, and its bytes."""
    with database.reading() as session:
        row = sketches.get(session, sketch)
        token = session.scalars(select(StateRow.token).where(StateRow.sketch_id == row.id)).one()
        return token, states.read(session, row.id) or b""


def put_back(database: Database, earlier: tuple[int, bytes], sketch: str = "views") -> None:
    """As restoring a backup would."""
    with database.writing() as session:
        row = sketches.get(session, sketch)
        states.write(session, row.id, earlier[1], over=None)
        session.execute(update(StateRow).where(StateRow.sketch_id == row.id).values(token=earlier[0]))


def sketch(database: Database, name: str = "views") -> Sketch:
    with database.reading() as session:
        return states.load(session, sketches.get(session, name), for_update=False)


def counters(database: Database, name: str = "views") -> dict[str, int]:
    return dict(sketch(database, name).counters)
