"""Questions to the planner, with usual answers to what a test does not care about."""

from app.core.ledger.budget import Cost
from app.core.mechanism import Family, Question


def question(
    family: Family = "stream",
    *,
    k: int = 64,
    epsilon: str = "1",
    delta: str = "1e-6",
    size: int | None = None,
    m: int = 1,
    sources: int = 1,
    beta: float = 0.05,
    rho: str | None = None,
) -> Question:
    in_epsilon = Cost.charged(epsilon=epsilon, delta=delta)
    return Question(
        family=family,
        k=k,
        max_contributions=m,
        sources=sources,
        universe_size=size,
        cost=in_epsilon if rho is None else Cost.charged_in_rho(rho=rho, delta=delta),
        beta=beta,
    )
