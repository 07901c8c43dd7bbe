"""The JSON of requests: every number and name is checked here, before a use case sees it."""

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from app.api.decoding.items import key_fault
from app.core.comparison import MOST_CONTRIBUTIONS
from app.core.ledger.budget import Budget, Cost
from app.core.mechanisms import MECHANISMS
from app.core.people import Enforcement, Unit
from app.core.planner import AUTO
from app.core.sketches.stream import MAX_K
from app.core.sketches.universe import MAX_SIZE, Universe, of_range, of_values
from app.usecases.access import Scope
from app.usecases.manage_ledgers import Contributions
from app.usecases.manage_sketches import OwnBudget, SketchSpec
from app.usecases.plan_release import Parameters, Terms

if TYPE_CHECKING:
    MechanismName = str  # a type checker knows no literals that are found at run time
else:
    MechanismName = Literal[(AUTO, *(mechanism.name for mechanism in MECHANISMS))]

NAME = r"^[a-z0-9][a-z0-9._-]{0,99}$"


_DECIMAL = r"^[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?$"
_LONGEST = 64
_NOT_SHORT = f"write a number, or a decimal string such as 0.5 or 1e-6 of at most {_LONGEST} characters"


def _short_number(value: Any) -> Any:
    if isinstance(value, bool) or len(str(value)) > _LONGEST:
        raise ValueError(_NOT_SHORT)
    if isinstance(value, str) and not re.fullmatch(_DECIMAL, value):  # `Decimal` takes the digits of every script
        raise ValueError(_NOT_SHORT)
    return value


def _no_text(value: Any) -> Any:
    if isinstance(value, bool | str):
        raise ValueError("write a whole number, without quotes")
    return value


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("leave out the character NUL")  # PostgreSQL cannot store it
    return text


def _key(text: str) -> str:
    fault = key_fault(text)
    if fault:
        raise ValueError(fault)
    return text


Text = Annotated[str, AfterValidator(_no_nul)]
_WHOLE = BeforeValidator(_no_text)  # stands last: what stands before it keeps its bounds in the documentation
Whole = Annotated[int, _WHOLE]
Amount = Annotated[Decimal, BeforeValidator(_short_number)]


def _described(**bounds: float) -> WithJsonSchema:
    """As a number within the bounds, or a text that is one: pydantic writes the bounds in words of its own."""
    text = {"type": "string", "pattern": _DECIMAL, "maxLength": _LONGEST}
    return WithJsonSchema({"anyOf": [{"type": "number", **bounds}, text]}, mode="validation")


Epsilon = Annotated[
    Amount,
    Field(gt=0, le=1000, description="ε, a decimal string or number", examples=["0.5"]),
    _described(exclusiveMinimum=0, maximum=1000),
]
Delta = Annotated[
    Amount,
    Field(ge=0, lt=1, description="δ, a decimal string or number", examples=["1e-6"]),
    _described(minimum=0, exclusiveMaximum=1),
]
Beta = Annotated[
    Amount,
    Field(
        ge=Decimal("1e-9"),
        le=Decimal("0.5"),
        description="Error bounds hold with probability 1 − β",
        examples=["0.05"],
    ),
    _described(minimum=1e-9, maximum=0.5),
]
Counters = Annotated[
    int,
    Field(
        ge=1,
        le=MAX_K,
        description="Counters. A count is at most n/(k+1) too low, n the number of events",
        examples=[1024],
    ),
    _WHOLE,
]
UnitIn = Annotated[
    Unit,
    Field(
        description="What is counted and protected. `event`: events, up to max_contributions of a person. `user`: each "
        "person's set of keys, up to max_contributions different ones, once"
    ),
]
MaxContributions = Annotated[
    int,
    Field(
        ge=1,
        le=MOST_CONTRIBUTIONS,
        description="m: events of one person that the guarantee covers, or keys in a person's set",
        examples=[1],
    ),
    _WHOLE,
]
ExpectedEvents = Annotated[
    Annotated[int, Field(ge=0, le=2**53), _WHOLE] | None,
    Field(
        description="How many events you expect the sketch to hold. Only this figure, never the true one, enters "
        "the part of the error bound that comes from the sketch itself.",
        examples=[100_000],
    ),
]


def example(body: dict[str, Any]) -> dict[str, Any]:
    """`openapi_extra` that fills in a request. In the model pydantic would sort its keys, and people read it."""
    return {"requestBody": {"content": {"application/json": {"example": body}}}}


class Input(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TotalIn(Input):
    epsilon: Epsilon
    delta: Delta

    def total(self) -> Budget:
        return Budget.granted(epsilon=self.epsilon, delta=self.delta)


class BudgetIn(TotalIn):
    accountant: Literal["basic", "zcdp"] = Field(
        "basic",
        description="`basic` adds up ε and δ; what is spent is the guarantee, at any moment. `zcdp` adds up ρ, which "
        "comes to far less for many small releases, and sets half of δ aside for it; the total is the guarantee",
    )


class ContributionsIn(Input):
    """The most that one person contributes to all sketches of the ledger together."""

    unit: UnitIn = "event"
    max: MaxContributions

    def contributions(self) -> Contributions:
        return Contributions(self.unit, self.max)


class LedgerIn(BudgetIn):
    contributions: ContributionsIn | None = Field(
        None,
        description="Count a person's contributions over all sketches of this ledger, which then must have this unit "
        "and max_contributions and can be merged",
    )


class BudgetChangeIn(TotalIn):
    reason: Text = Field(min_length=1, max_length=1000, description="Why; it stays in the ledger for good")


class UniverseIn(Input):
    """All possible keys: listed, or the whole numbers of a range."""

    values: list[Annotated[str, AfterValidator(_key)]] | None = Field(
        None, min_length=1, max_length=10_000, description="Every possible key"
    )
    range: tuple[Whole, Whole] | None = Field(None, description="First and last", examples=[[0, 999_999]])

    @model_validator(mode="after")
    def _one_kind(self) -> "UniverseIn":
        if (self.values is None) == (self.range is None):
            raise ValueError("give either values or range")
        return self

    def universe(self) -> Universe:
        return of_range(*self.range) if self.range is not None else of_values(self.values or [])


class SketchIn(Input):
    k: Counters
    unit: UnitIn = "event"
    max_contributions: MaxContributions = 1
    enforcement: Enforcement | None = Field(
        None,
        description="`enforced`: items name a `user`, and the service counts no more of each than allowed; the default "
        "for unit `user` or max_contributions above 1. `declared`: it trusts the senders, and every snapshot says so",
        examples=["declared"],
    )
    ledger: str | None = Field(None, pattern=NAME, description="A shared ledger that pays for releases")
    budget: BudgetIn | None = Field(None, description="Or a budget of its own, in a ledger of the sketch's name")
    universe: UniverseIn | None = Field(
        None,
        description="All possible keys. It allows releases without δ; events with other keys are refused",
    )
    description: Text = Field("", max_length=1000, description="For people")

    @model_validator(mode="after")
    def _one_payer(self) -> "SketchIn":
        if (self.ledger is None) == (self.budget is None):
            raise ValueError("give either ledger or budget")
        return self

    def spec(self) -> SketchSpec:
        own = OwnBudget(self.budget.total(), self.budget.accountant) if self.budget else None
        return SketchSpec(
            k=self.k,
            unit=self.unit,
            max_contributions=self.max_contributions,
            enforcement=self.enforcement or self._usual_enforcement(),
            ledger=own or self.ledger or "",
            description=self.description,
            universe=self.universe.universe() if self.universe else None,
        )

    def _usual_enforcement(self) -> Enforcement:
        return "enforced" if self.unit == "user" or self.max_contributions > 1 else "declared"


class MergeIn(Input):
    sources: list[Annotated[str, Field(pattern=NAME)]] = Field(
        min_length=1, max_length=1000, description="Sketches whose data go into the target; they stay as they are"
    )
    mode: Literal["compact", "summed"] = Field(
        description="`compact` keeps k counters and takes further events; `summed` keeps every key and needs less "
        "noise, which is better for short streams"
    )


class PlanIn(Input):
    epsilon: Epsilon
    delta: Delta
    beta: Beta = Decimal("0.05")
    expected_events: ExpectedEvents = None

    def terms(self) -> Terms:
        cost = Cost.charged(epsilon=self.epsilon, delta=self.delta)
        return Terms(cost=cost, beta=self.beta, expected_events=self.expected_events)


class ParametersPlanIn(PlanIn):
    k: Counters
    unit: UnitIn = "event"
    max_contributions: MaxContributions = 1
    universe_size: Annotated[int, Field(ge=1, le=MAX_SIZE), _WHOLE] | None = Field(
        None, description="How many keys are possible, where that is known", examples=[1_000_000]
    )

    def parameters(self) -> Parameters:
        return Parameters(
            k=self.k,
            unit=self.unit,
            max_contributions=self.max_contributions,
            universe_size=self.universe_size,
        )


class SnapshotIn(PlanIn):
    mechanism: MechanismName = Field(AUTO, description=f"`{AUTO}` takes the one with the least error bound")


class KeyIn(Input):
    name: Text = Field(min_length=1, max_length=100, description="For people; need not be unique")
    scopes: list[Scope] = Field(min_length=1, max_length=4, description="`admin` includes the others")
    sketches: str = Field(
        "*",
        pattern=r"^[a-z0-9._*-]{1,100}$",
        description="The sketch and ledger names it may touch; `*` stands for any text",
    )
