"""What a ledger proves, what it has spent, and a tighter figure that proves nothing, in numbers."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext

from app.core.guarantee import NOT_COVERED
from app.core.ledger.budget import EPSILON_DIGITS, Budget
from app.core.ledger.composition import Release, epsilon_of
from app.core.ledger.proven import Change, Proven, proven
from app.core.mechanisms import rho_of_entry
from app.core.noise.tails import CONTEXT
from app.store import entries, ledger, lineage
from app.store.entries import Line
from app.store.records import LedgerRecord
from app.usecases.context import Context

_DIGITS = Decimal("0.0001")


@dataclass(frozen=True, slots=True)
class Report:
    """The guarantee that holds, and figures beside it that are none."""

    ledger: str
    accountant: str
    releases: int
    total: Budget
    guarantee: Budget
    spent_is_proven: bool
    changes: Sequence[Change]  # of the total, after the first release
    spent: Budget
    rho: str | None  # spent, where the accountant counts it
    numerical_epsilon: str | None  # at the total δ, rounded up; None where nothing was released
    not_covered: str | None  # where a sketch that it pays for holds what an earlier version counted


def report_ledger(context: Context, name: str) -> Report:
    """The report of the ledger, or UnknownLedger.

    Every figure comes from the same entries, which the hash of the last one stands for: so a report is made once.
    """
    with context.database.reading() as session:
        record = ledger.get(session, name)
        made = context.reports.find((name, record.head))
        if made is not None:
            return made
        counted = _Counted(entries.lines(session, record.id, until=record.entries))
        holds = proven(record.account.accountant, counted)
        marked = lineage.holds_marked(session, record.id)
    report = _report(record, holds, counted, marked=marked)
    context.reports.put((name, record.head), report)
    return report


class _Counted:
    """Counts releases that are alike on their way, so that the entries need not be kept."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._lines = lines
        self._alike: Counter[tuple[int, int, str | None, str | None]] = Counter()

    def __iter__(self) -> Iterator[Line]:
        for line in self._lines:
            if line.kind == "release":
                self._alike[line.epsilon_units, line.delta_units, line.mechanism, line.parameters] += 1
            yield line

    @property
    def number(self) -> int:
        """How many releases there were."""
        return self._alike.total()

    def numerical_epsilon(self, delta: float) -> str | None:
        """An ε of all releases together at this δ, rounded up: never more than the sum of theirs. None: not found."""
        releases: Counter[Release] = Counter()
        for (epsilon_units, delta_units, mechanism, parameters), number in self._alike.items():
            # Gaussian noise by its ρ, everything else by its ε. The δ of Gaussian noise is all counted as threshold.
            rho = None if parameters is None else rho_of_entry(mechanism, json.loads(parameters))
            cost = epsilon_units / 10**9, delta_units / 10**18
            releases[Release(*cost, rho=None if rho is None else float(rho))] += number
        least = Decimal(epsilon_of(releases, delta))
        with localcontext(CONTEXT):
            if all(epsilon_units for epsilon_units, *_ in self._alike):  # a release that is stated in ρ has no ε
                units = sum(epsilon_units * number for (epsilon_units, *_), number in self._alike.items())
                least = min(least, Decimal(units).scaleb(-EPSILON_DIGITS))
            return str(least.quantize(_DIGITS, ROUND_CEILING)) if least.is_finite() else None


def _report(record: LedgerRecord, holds: Proven, counted: _Counted, *, marked: bool) -> Report:
    accountant = record.account.accountant
    return Report(
        ledger=record.name,
        accountant=record.accountant,
        releases=counted.number,
        total=holds.total,
        guarantee=holds.guarantee,
        spent_is_proven=accountant.spent_is_proven,
        changes=holds.changes,
        spent=accountant.converted(holds.total, holds.paid),
        rho=accountant.rho(holds.paid),
        numerical_epsilon=counted.numerical_epsilon(float(holds.total.delta)) if counted.number else None,
        not_covered=NOT_COVERED if marked else None,
    )
