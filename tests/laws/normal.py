"""The normal distribution function in 60 digits, from two expansions that share nothing with the app."""

from decimal import Context, Decimal, localcontext
from functools import lru_cache

_CONTEXT = Context(prec=90)
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798")
_NEAR = 4  # the series up to here, the continued fraction beyond


def density(z: Decimal) -> Decimal:
    with localcontext(_CONTEXT):
        return (-z * z / 2).exp() / (2 * _PI).sqrt()


def tail_by_series(z: Decimal) -> Decimal:
    """Pr[N ≥ z] = ½ − φ(z)·(z + z³/3 + z⁵/(3·5) + …)."""
    with localcontext(_CONTEXT):
        term = total = z
        n = 1
        while abs(term) > Decimal("1e-95"):
            n += 2
            term = term * z * z / n
            total += term
        return Decimal("0.5") - density(z) * total


def tail_by_fraction(z: Decimal) -> Decimal:
    """Pr[N ≥ z] = φ(z)/(z + 1/(z + 2/(z + 3/(z + …)))) for z > 0, from far enough down."""
    with localcontext(_CONTEXT):
        value = z
        for n in range(200, 0, -1):
            value = z + n / value
        return density(z) / value


@lru_cache(maxsize=10_000)
def tail(z: Decimal) -> Decimal:
    """Pr[N ≥ z] for z ≥ 0."""
    return tail_by_series(z) if z < _NEAR else tail_by_fraction(z)


def phi(z: Decimal) -> Decimal:
    """Φ(z)."""
    with localcontext(_CONTEXT):
        return 1 - tail(z) if z >= 0 else tail(-z)


def log_phi(z: Decimal) -> Decimal:
    """log Φ(z), by its series where Φ(z) is too near 1."""
    with localcontext(_CONTEXT):
        above = tail(z) if z > 0 else Decimal(1)
        if above < Decimal("1e-30"):
            return -above * (1 + above / 2 + above**2 / 3)
        return phi(z).ln()
