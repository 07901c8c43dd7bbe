"""What ρ comes to as (ε, δ), straight from the formula: an oracle that minimises in 50 digits and rounds nothing."""

from collections.abc import Callable

import mpmath


def least_delta(rho: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf:
    """Corollary 13 of Canonne, Kamath & Steinke 2020 as it stands there."""

    def log_delta(alpha: mpmath.mpf) -> mpmath.mpf:
        return (alpha - 1) * (alpha * rho - epsilon) + alpha * mpmath.log1p(-1 / alpha) - mpmath.log(alpha - 1)

    return mpmath.exp(_least(log_delta))


def epsilon_of(rho: mpmath.mpf, delta: mpmath.mpf) -> mpmath.mpf:
    """The smallest ε that is at least 0."""
    return max(mpmath.mpf(0), _least(lambda alpha: alpha * rho + _rest(alpha, delta)))


def rho_of(epsilon: mpmath.mpf, delta: mpmath.mpf) -> mpmath.mpf:
    """The largest ρ."""
    return -_least(lambda alpha: (_rest(alpha, delta) - epsilon) / alpha)


def earlier_epsilon_of(rho: mpmath.mpf, delta: mpmath.mpf) -> mpmath.mpf:
    """As versions before 0009 of the tables converted (Bun & Steinke 2016)."""
    return rho + 2 * mpmath.sqrt(-rho * mpmath.log(delta))


def earlier_rho_of(epsilon: mpmath.mpf, delta: mpmath.mpf) -> mpmath.mpf:
    """The inverse."""
    log = -mpmath.log(delta)
    return (mpmath.sqrt(log + epsilon) - mpmath.sqrt(log)) ** 2


def _rest(alpha: mpmath.mpf, delta: mpmath.mpf) -> mpmath.mpf:
    """The formula for δ, solved for ε, without its first term αρ."""
    return (alpha * mpmath.log1p(-1 / alpha) - mpmath.log(alpha - 1) - mpmath.log(delta)) / (alpha - 1)


def _least(value: Callable[[mpmath.mpf], mpmath.mpf]) -> mpmath.mpf:
    """Over α > 1, by golden section on a logarithmic scale; the value falls and then rises."""
    with mpmath.workdps(60):
        golden = (mpmath.sqrt(5) - 1) / 2
        low, high = mpmath.mpf(-20), mpmath.mpf(50)  # of ln(α − 1)
        for _ in range(180):
            left, right = high - golden * (high - low), low + golden * (high - low)
            if value(1 + mpmath.exp(left)) < value(1 + mpmath.exp(right)):
                high = right
            else:
                low = left
        return value(1 + mpmath.exp((low + high) / 2))
