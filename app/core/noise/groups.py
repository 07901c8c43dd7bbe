"""Group privacy: what the δ of one event grows to where a person may have m events.

Between two streams that differ by m events lie m − 1 others, each one event from the next. A mechanism that is
(ε/m, δ₁)-private for one event gives P₀(Z) ≤ e^(ε/m)·P₁(Z) + δ₁ ≤ … ≤ e^ε·P_m(Z) + δ₁·Σ e^(iε/m), i from 0 to m − 1.
That sum is a little less than the m·e^ε of `lem:group-privacy`.
"""

from decimal import Decimal, localcontext
from fractions import Fraction

from app.core.noise.tails import CONTEXT, OUTWARD


def group_factor(epsilon: Fraction, max_contributions: int) -> Decimal:
    """Σ e^(iε/m) for i < m: by how much m steps of one event enlarge the δ of one; rounded outward."""
    if max_contributions == 1:
        return Decimal(1)
    with localcontext(CONTEXT):
        step = (Decimal(epsilon.numerator) / epsilon.denominator / max_contributions).exp()
        return (step**max_contributions - 1) / (step - 1) * OUTWARD
