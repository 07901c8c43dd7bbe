"""The JSON of a ledger's report: what is proven, what is spent, and how the two differ.

The models without a docstring have none on purpose: it would go into the OpenAPI document.
"""

from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from app.api.outputs import AmountOut, Sparse
from app.core.guarantee import ASSUMED
from app.core.ledger.proven import Change
from app.usecases.report_ledger import Report

_STATEMENT = (
    "For any two data sets that differ by one unit of privacy (one event, a person's max_contributions events, or one "
    "user's set), every set of answers {which} has probabilities P and Q with P ≤ e^{epsilon}·Q + {delta}."
)
_SPENT = (
    "This is what is spent. It holds whenever it is read, also at a moment chosen after seeing answers, and however "
    "the total was changed."
)
_TOTAL = (
    "This is the total, fixed before the first answer. What is spent is bookkeeping and no guarantee: nothing is "
    "proven of a figure that is read at a moment chosen after seeing answers."
)
_RAISED = (
    "The total was raised after answers had been given. So this is the sum of the first total and of what each raise "
    "allowed from then on; the present total alone is not proven. What is spent is bookkeeping and no guarantee."
)
_LOWERED = (
    "The total was changed after answers had been given, but never to more than was granted before. So what was "
    "granted holds; a lower total is not proven. What is spent is bookkeeping and no guarantee."
)


class SpentOut(Sparse, AmountOut):
    rho: str | SkipJsonSchema[None] = Field(None, description="What a `zcdp` ledger counts", examples=["0.125"])


class BudgetChangeOut(AmountOut):
    """A total that was set after the first release."""

    number: int = Field(description="Of its entry in the ledger", examples=[4])
    adds: AmountOut | None = Field(
        description="By how much the guarantee is larger because of it. null at a `basic` ledger, and where it grants "
        "no more than was granted before, or was changed again before the next release"
    )

    @classmethod
    def of(cls, change: Change) -> "BudgetChangeOut":
        """The change as it is answered."""
        adds = AmountOut(**change.adds.as_strings()) if change.adds else None
        return cls(number=change.entry, adds=adds, **change.total.as_strings())


class NumericalOut(AmountOut):
    note: str = Field(examples=["A report: tighter, but no rule for when to stop."])


class ReportOut(BaseModel):
    """What is proven of everything that the ledger paid for, and figures beside it that prove nothing."""

    ledger: str = Field(examples=["page-views"])
    accountant: str = Field(description="How costs add up", examples=["basic"])
    releases: int = Field(description="How many it paid for", examples=[2])
    guarantee: AmountOut = Field(
        description="What is proven, whatever was chosen when. Of a `basic` ledger it is what is spent; of a `zcdp` "
        "ledger the total that was fixed before the first release, and what each later raise allowed"
    )
    statement: str = Field(description="The same in words")
    total: AmountOut = Field(description="The present total")
    spent: SpentOut = Field(
        description="What the releases so far come to. Of a `zcdp` ledger it is bookkeeping and no guarantee"
    )
    budget_changes: list[BudgetChangeOut] = Field(description="Totals that were set after the first release")
    not_covered: str | None = Field(
        description="What the guarantee does not cover; null where it covers all that was counted"
    )
    numerical: NumericalOut | None = Field(
        description="A tighter figure at the total δ, rounded up; null before the first release"
    )

    @classmethod
    def of(cls, report: Report) -> "ReportOut":
        """The report as it is answered, with its figures in words."""
        return cls(
            ledger=report.ledger,
            accountant=report.accountant,
            releases=report.releases,
            guarantee=AmountOut(**report.guarantee.as_strings()),
            statement=_statement(report),
            total=AmountOut(**report.total.as_strings()),
            spent=SpentOut(**report.spent.as_strings(), rho=report.rho),
            budget_changes=[BudgetChangeOut.of(change) for change in report.changes],
            not_covered=_exception(report),
            numerical=_numerical(report),
        )


def _statement(report: Report) -> str:
    paid = f"for which {report.ledger!r} has paid no more than this"
    which = paid if report.spent_is_proven else f"that {report.ledger!r} pays for"
    parts = _STATEMENT.format(which=which, **report.guarantee.as_strings()), _why(report), ASSUMED, _exception(report)
    return " ".join(filter(None, parts))


def _exception(report: Report) -> str | None:
    return report.not_covered and report.not_covered.replace("in this sketch", "in sketches that the ledger pays for")


def _why(report: Report) -> str:
    if report.spent_is_proven:
        return _SPENT
    if not report.changes:
        return _TOTAL
    return _RAISED if any(change.adds for change in report.changes) else _LOWERED


def _numerical(report: Report) -> NumericalOut | None:
    if report.numerical_epsilon is None:
        return None
    return NumericalOut(
        epsilon=report.numerical_epsilon,
        delta=report.total.as_strings()["delta"],
        note="A report: numerical composition, tighter, but proven only for releases that were fixed in advance, and "
        "no valid rule for when to stop.",
    )
