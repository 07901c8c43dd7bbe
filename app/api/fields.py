"""Numbers, names and texts as requests may write them: each with its bounds and its words for the documentation."""

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from app.api.decoding.items import key_fault
from app.core.comparison import MOST_CONTRIBUTIONS
from app.core.mechanisms import MECHANISMS
from app.core.people import Unit
from app.core.planner import AUTO
from app.core.sketches.stream import MAX_K
from app.core.sketches.universe import MAX_SIZE

NAME = r"^[a-z0-9][a-z0-9._-]{0,99}$"
SNAPSHOT_ID = r"^[0-9a-f]{32}$"

if TYPE_CHECKING:
    MechanismName = str  # a type checker knows no literals that are found at run time
else:
    MechanismName = Literal[(AUTO, *(mechanism.name for mechanism in MECHANISMS))]

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


def _event_key(text: str) -> str:
    fault = key_fault(text)
    if fault:
        raise ValueError(fault)
    return text


Text = Annotated[str, AfterValidator(_no_nul)]
EventKey = Annotated[str, AfterValidator(_event_key)]
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
Rho = Annotated[
    Amount,
    Field(gt=0, le=1000, description="ρ, a decimal string or number", examples=["0.005"]),
    _described(exclusiveMinimum=0, maximum=1000),
]
TotalShare = Annotated[
    Amount,
    Field(
        ge=Decimal("0.001"),
        le=Decimal("0.5"),
        description="The share of the price that `total` takes",
        examples=["0.02"],
    ),
    _described(minimum=0.001, maximum=0.5),
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
        description="What if the sketch held so many events? Then its own error is at most this divided by k + 1. A "
        "release needs no such figure: it measures the sketch's own error.",
        examples=[100_000],
    ),
]
UniverseSize = Annotated[int, Field(ge=1, le=MAX_SIZE), _WHOLE]
EventsPerDay = Annotated[
    int,
    Field(
        ge=1,
        le=10**12,
        description="About how many events come in a day; for unit `user`, keys of all people's sets together",
        examples=[1_000_000],
    ),
    _WHOLE,
]
SmallestCount = Annotated[
    Annotated[int, Field(ge=1, le=10**15), _WHOLE] | None,
    Field(
        description="A key that has this count, in what a release covers, should be listed. Smaller ones do not matter",
        examples=[500],
    ),
]
ReleaseNumber = Annotated[int, Field(ge=1, le=1000, description="So many releases", examples=[1]), _WHOLE]
Days = Annotated[
    int,
    Field(ge=1, le=3660, description="How many days it goes on, and the budget must last", examples=[365]),
    _WHOLE,
]
