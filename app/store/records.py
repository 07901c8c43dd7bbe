"""What the tables hold, as values: the store gives these out, and never its rows.

A record says what was stored when it was read; it does not change when the row does.
"""

from dataclasses import dataclass, field
from datetime import datetime

from app.core.ledger.account import Account
from app.core.ledger.accountants import ACCOUNTANTS, Price
from app.core.ledger.budget import Budget
from app.core.planner import Family
from app.core.sketches.parameters import Contributions, SketchParameters


@dataclass(frozen=True, slots=True, kw_only=True)
class SketchRecord:
    """A sketch without its data, deleted or not."""

    id: int
    name: str
    ledger_id: int
    parameters: SketchParameters
    register_id: int | None  # where its people's contributions are added up; None where the senders are trusted
    family: Family
    sources: int  # streams that were summed
    counted_by_request: bool  # it holds what an earlier version counted: `core/guarantee.py`
    description: str
    created_at: datetime
    closed_at: datetime | None
    deleted_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRecord:
    """A ledger as its row says; where it stands is its `account`."""

    id: int
    name: str
    accountant: str
    total: Budget
    paid: Price
    left: Price
    entries: int  # the sequence of its last entry
    head: bytes  # the hash of its last entry
    contributions: Contributions | None  # the bound over all its sketches; None where each has its own
    register_id: int | None  # where people's contributions to all its sketches are added up
    created_at: datetime

    @property
    def account(self) -> Account:
        """Where the ledger stood when it was read."""
        return Account(self.name, ACCOUNTANTS[self.accountant], self.total, self.paid, self.left)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyRecord:
    """An API key. Its secret is stored nowhere."""

    id: str
    name: str
    secret_hash: bytes = field(repr=False)
    scopes: list[str]
    sketches: str
    created_at: datetime
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """Where people's contributions are added up, to one sketch or to all sketches of a ledger."""

    id: int
    name: str
    key_check: bytes  # of the user key: `Fingerprints.check`
    sequence: int  # of the last row of its log
    dropped: bool  # its people were forgotten, and nothing more is counted in it
