"""zcdp ledgers may spend what the tighter conversion from ρ to (ε, δ) shows to be within their totals."""

from bisect import bisect_left
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_ONE = 1 << 34
_PARTS = 1 << 24
_GRID = range(50 * _PARTS)


def upgrade() -> None:
    """Raise what zcdp ledgers may spend in ρ. Their totals, what they have spent, and all entries stay as they are."""
    columns = ("id", "accountant", "epsilon_total", "delta_total", "spendable")
    ledgers = sa.table("ledgers", *map(sa.column, columns))
    totals = sa.select(ledgers.c.epsilon_total, ledgers.c.delta_total).where(ledgers.c.accountant == "zcdp").distinct()
    for epsilon, delta in op.get_bind().execute(totals).all():
        limit = _limit(Fraction(epsilon, 10**9), Fraction(delta // 2, 10**18))
        of_this_total = (ledgers.c.epsilon_total == epsilon) & (ledgers.c.delta_total == delta)
        lower = (ledgers.c.accountant == "zcdp") & of_this_total & (ledgers.c.spendable < limit)
        op.execute(sa.update(ledgers).where(lower).values(spendable=limit))


def _limit(epsilon: Fraction, delta: Fraction) -> int:
    """The largest ρ, in units of 1e-15 and rounded down, that some α of the grid shows to be (ε, δ)-private.

    The same as `Zcdp.limit` of this version. It is found by halving, more slowly and without floats.
    """

    @lru_cache(maxsize=4)
    def rho(at: int) -> Fraction:
        doubling, part = divmod(at, _PARTS)
        a = (_PARTS + part) << doubling  # α − 1, times 2^34
        with localcontext(Context(prec=120, rounding=ROUND_CEILING)):
            log_inverse = -(Decimal(delta.numerator) / delta.denominator).ln()
            log_alpha = (Decimal(_ONE + a) / _ONE).ln()
            log_share = (Decimal(a) / (_ONE + a)).ln()
            intercept = Fraction(log_share + (log_inverse - log_alpha) * _ONE / a + Decimal("1e-60"))
        return (epsilon - intercept) * _ONE / (_ONE + a)

    best = bisect_left(_GRID[:-1], True, key=lambda at: rho(at + 1) <= rho(at))
    return max(0, int(rho(best) * 10**15))
