"""Advice: which parameters suit what an operator has and wants."""

from fastapi import APIRouter

from app.api.advice_models import AdviceIn, AdviceOut
from app.api.dependencies import AppContext, Reader
from app.api.errors import responses
from app.api.inputs import example
from app.core.errors import InvalidNumber, NoMechanism
from app.usecases.give_advice import give_advice

router = APIRouter()

_EXAMPLE = {
    "events_per_day": 100_000,
    "smallest_count": 100,
    "releases": {"number": 2, "every": "day"},
    "days": 365,
    "covers": "period",
}


@router.post(
    "/v1/advice",
    tags=["advice"],
    openapi_extra=example(_EXAMPLE),
    responses=responses(InvalidNumber, NoMechanism),
)
def advise(body: AdviceIn, app: AppContext, caller: Reader) -> AdviceOut:
    """Which k, accountant, ε or ρ, and δ to take, for what you have and want. Needs `read`.

    It knows what you say and nothing else: no sketch is read, nothing is spent. Figures of the sketch's own error are
    the worst case, for the most events that it holds; a release measures how large that error really was.
    """
    return AdviceOut.of(give_advice(app, body.wish()))
