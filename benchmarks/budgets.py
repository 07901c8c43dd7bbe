"""Part `budgets`: how many releases a ledger lets out, by its own limit, by the formula before and by adding up ε."""

from fractions import Fraction

from app.core.ledger.accountants import ACCOUNTANTS
from app.core.ledger.budget import Budget, Cost
from benchmarks import before
from benchmarks.markdown import number
from benchmarks.report import Claim, Part

_RHO, _DELTA = "0.005", "1e-9"
_BUDGETS = {("6", "1e-5"): 1.19, ("1", "1e-6"): 1.3}  # so many times the ρ of the formula before


def run(part: Part, *, quick: bool) -> None:
    """Count releases, without a database: the limits are those that ledgers keep."""
    cost = Cost.charged_in_rho(rho=_RHO, delta=_DELTA)
    in_epsilon = cost.in_epsilon()
    part.say(
        f"Releases of ρ = {_RHO} and δ = {_DELTA}, so small that δ does not decide. By the ledger: the limit of a "
        "`zcdp` ledger. Before: ρ + 2√(ρ·ln(1/δ′)) = ε. Basic: a `basic` ledger, each release at the equivalent "
        f"ε = √(2ρ) = {number(float(in_epsilon.epsilon))}. Both of the first set half of δ aside. A budget that is "
        "divided into fewer than some 25 releases lets more of them out on a `basic` ledger."
    )
    rows = []
    for (epsilon, delta), needed in _BUDGETS.items():
        total = Budget.granted(epsilon=epsilon, delta=delta)
        zcdp, basic = ACCOUNTANTS["zcdp"], ACCOUNTANTS["basic"]
        limit = zcdp.limit(total)
        rho, earlier = zcdp.largest_rho(limit) or Fraction(0), before.rho_limit(total)
        ours = limit.how_many(zcdp.price(cost, cost.rho))
        added = basic.limit(total).how_many(basic.price(in_epsilon, cost.rho))
        counts = [str(each) for each in (ours, int(earlier / cost.rho), added)]
        rows.append([f"({epsilon}, {delta})", *counts, f"{float(rho):.4f}", f"{float(earlier):.4f}"])
        words = f"ρ that a budget of ({epsilon}, {delta}) holds"
        part.claim(Claim(words, float(rho / earlier), at_least=needed, unit="× before"))
    part.show(["budget", "by the ledger", "before", "basic", "ρ", "ρ before"], rows)
