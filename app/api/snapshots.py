"""Plans, releases, and what was released."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from app.api.dependencies import (
    AppContext,
    IdempotencyKey,
    Paging,
    Reader,
    ReaderOfName,
    Releaser,
    ReleaserOfName,
    SketchName,
    sealed,
)
from app.api.errors import Responses, headers_documented, responses
from app.api.fields import SNAPSHOT_ID, EventKey
from app.api.inputs import AnyPlanIn, PlanIn, SnapshotIn, SumIn, TogetherIn, example
from app.api.outputs import PageOut
from app.api.release_outputs import PlanOut, SnapshotOut, SnapshotSummaryOut, SumOut
from app.api.rendering import TRUNCATED, added_up, released, rendered
from app.core.errors import BudgetExhausted, IncompatibleSketches, InvalidNumber, InvalidRequest, NoMechanism
from app.core.selection import Selection, Sorting
from app.refusals import IdempotencyKeyReused, NoSnapshot, NotAcceptable, Overloaded, UnknownSketch, UnknownSnapshot
from app.server.answers import AppReaders
from app.server.limits import ReleaseTurn
from app.usecases import read_snapshots
from app.usecases.plan_release import plan_parameters, plan_sketch, plan_together
from app.usecases.release_snapshot import release_snapshot, release_together
from app.usecases.sum_snapshots import sum_snapshots as adding

router = APIRouter()

_MOST_NAMED = 100
Top = Annotated[int | None, Query(ge=1, le=65_536, description="Only so many of the largest counts")]
MinCount = Annotated[int | None, Query(description="Only counts of at least this")]
Named = Annotated[
    list[EventKey],
    Query(
        default_factory=list,
        alias="key",
        max_length=_MOST_NAMED,
        description=f"Only these keys, up to {_MOST_NAMED}, each as a `key` of its own: those that are reported with "
        "their bars, the others with what their true counts are at most. Not together with `top` or `min_count`",
        openapi_examples={"all": {"value": []}, "two keys": {"value": ["/pricing", "/secret-offer"]}},
    ),
]
Order = Annotated[
    Sorting, Query(description="`count`: the largest first, of equal counts the smaller key. `key`: in key order")
]


def _selection(keys: Named, top: Top = None, min_count: MinCount = None, order: Order = "count") -> Selection:
    if keys and (top is not None or min_count is not None):
        raise InvalidRequest("Name keys, or choose by `top` and `min_count`, not both.")
    return Selection(top=top, min_count=min_count, keys=frozenset(keys), order=order)


Wanted = Annotated[Selection, Depends(_selection)]

_TERMS = {"epsilon": "0.5", "delta": "5e-7", "beta": "0.05"}
_WHAT_IF = {**_TERMS, "expected_events": 100_000}
_VALIDATOR = headers_documented({"ETag": "For If-None-Match: a stored release never changes"})
_MARKED = {
    TRUNCATED: {
        "description": "`true` where the smallest counts were left out (`truncated`); else absent",
        "schema": {"type": "string"},
    }
}
_SHOWN: Responses = {
    200: {
        "model": SnapshotOut,
        "description": "As JSON, CSV or an SVG picture, by Accept",
        "headers": _VALIDATOR | _MARKED,
        "content": {
            "text/csv": {"schema": {"type": "string"}, "example": "key,count,low,high\r\n/pricing,1043,1021,1162\r\n"},
            "image/svg+xml": {},
        },
    },
    304: {"description": "Not modified: you have it already (If-None-Match)", "headers": _VALIDATOR},
}
_ADDED_UP: Responses = {
    200: {
        "model": SumOut,
        "description": "As JSON or CSV, by Accept",
        "headers": _MARKED,
        "content": {"text/csv": _SHOWN[200]["content"]["text/csv"]},
    }
}
_RELEASED: Responses = {
    201: {"model": SnapshotOut, "headers": headers_documented({"Location": "Where it can be read again"})}
}


@router.post(
    "/v1/plan",
    tags=["snapshots"],
    openapi_extra=example({"k": 16_384, "unit": "event", **_WHAT_IF}),
    responses=responses(InvalidNumber, NoMechanism, UnknownSketch, IncompatibleSketches),
)
def plan(body: AnyPlanIn, app: AppContext, caller: Reader) -> PlanOut:
    """What a release would give for these parameters, before a sketch exists; or, with `sketches` in their place, for
    several sketches together. Needs `read`."""
    if body.sketches is None:
        return PlanOut.of(plan_parameters(app, body.parameters(), body.terms()), body.expected_events)
    for name in body.sketches:
        caller.require_name(name)
    planned = plan_together(app, body.sketches, body.mode, body.terms())
    return PlanOut.of(planned, body.expected_events, together=True)


@router.post(
    "/v1/sketches/{name}/plan",
    tags=["snapshots"],
    openapi_extra=example(_WHAT_IF),
    responses=responses(UnknownSketch, InvalidNumber, NoMechanism),
)
def plan_snapshot(name: SketchName, body: PlanIn, app: AppContext, caller: ReaderOfName) -> PlanOut:
    """What a release would give and cost: noise, threshold, error bounds. Spends nothing. Needs `read`."""
    return PlanOut.of(plan_sketch(app, name, body.terms()), body.expected_events)


@router.post(
    "/v1/sketches/{name}/snapshots",
    tags=["snapshots"],
    status_code=201,
    response_model=None,
    openapi_extra=example({**_TERMS, "mechanism": "auto"}),
    responses=_RELEASED
    | responses(UnknownSketch, BudgetExhausted, InvalidNumber, IdempotencyKeyReused, NoMechanism, Overloaded),
)
def create_snapshot(
    name: SketchName,
    body: SnapshotIn,
    app: AppContext,
    caller: ReleaserOfName,
    turn: ReleaseTurn,
    readers: AppReaders,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """One private release: charge, add noise, store, answer. Needs `release`.

    With an `Idempotency-Key`, a repeated request gets the same snapshot, without new noise or charge. A release that
    the budget does not cover is refused with 409 and charges nothing. So does 503 `overloaded`: other releases are
    running, or the sketch is being merged again and again; send it again after `Retry-After`.
    """
    asked = body.model_dump_json().encode()
    claim = caller.claim("snapshot", name, idempotency_key, asked) if idempotency_key else None
    snapshot = release_snapshot(app, name, body.terms(), body.mechanism, claim, by=caller.api_key_id)
    return released(app, readers, snapshot)


@router.post(
    "/v1/snapshots",
    tags=["snapshots"],
    status_code=201,
    response_model=None,
    openapi_extra=example({"sketches": ["page-views", "app-views"], **_TERMS}),
    responses=_RELEASED
    | responses(
        *(UnknownSketch, IncompatibleSketches, BudgetExhausted, InvalidNumber),
        *(IdempotencyKeyReused, NoMechanism, Overloaded),
    ),
)
def create_joint_snapshot(
    body: TogetherIn,
    app: AppContext,
    caller: Releaser,
    turn: ReleaseTurn,
    readers: AppReaders,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """One private release of several sketches as one. Needs `release` for all of them.

    Every ledger that pays for one of them pays once, or none does. Nothing is merged or stored but the snapshot: the
    sketches stay as they are, and can be released again. They must fit together as for a merge. All else is as for a
    single sketch.
    """
    for name in body.sketches:
        caller.require_name(name)
    asked = body.model_dump_json().encode()
    claim = caller.claim("snapshot-together", "", idempotency_key, asked) if idempotency_key else None
    snapshot = release_together(
        app, body.sketches, body.mode, body.terms(), body.mechanism, claim, by=caller.api_key_id
    )
    return released(app, readers, snapshot)


@router.post(
    "/v1/snapshots/sum",
    tags=["snapshots"],
    response_model=None,
    openapi_extra=example({"snapshots": ["0f8fad5bd9cb469fa16570867728950e", "7c9e6679f3d54b8a9d0c2f6b1e4a5d3c"]}),
    responses=_ADDED_UP | responses(UnknownSnapshot, IncompatibleSketches, NotAcceptable, Overloaded),
)
def sum_snapshots(
    body: SumIn, app: AppContext, caller: Reader, request: Request, readers: AppReaders, wanted: Wanted
) -> Response:
    """Released histograms, added up: the counts of a key, and the ends of its intervals. Needs `read` for all of them.

    Free: it is post-processing, so nothing is charged, and nothing is stored. No event may be in two of them, so their
    sketches must hold events of different ones. A key that a part does not list counts as 0 there, up to what that
    part says that it is at most.
    """
    return added_up(app, readers, adding(app, caller, body.snapshots), request, wanted)


@router.get("/v1/sketches/{name}/snapshots", tags=["snapshots"], responses=responses(UnknownSketch))
def list_snapshots(
    name: SketchName, app: AppContext, caller: ReaderOfName, paging: Paging
) -> PageOut[SnapshotSummaryOut]:
    """Releases of a sketch alone, newest first, without their histograms; of a deleted sketch too. Needs `read`."""
    page = read_snapshots.list_snapshots(app, name, paging.after_number(), paging.limit)
    return PageOut(items=[SnapshotSummaryOut.of(item) for _, item in page.items], cursor=sealed(page.next))


@router.get(
    "/v1/snapshots/{id}",
    tags=["snapshots"],
    response_model=None,
    responses=_SHOWN | responses(UnknownSnapshot, NotAcceptable, Overloaded),
)
def get_snapshot(
    snapshot_id: Annotated[str, Path(alias="id", pattern=SNAPSHOT_ID, description="From the answer of a release")],
    app: AppContext,
    caller: Reader,
    request: Request,
    readers: AppReaders,
    wanted: Wanted,
) -> Response:
    """A stored release. Free. Needs `read` for all its sketches."""
    snapshot = read_snapshots.get_snapshot(app, caller, snapshot_id)
    return rendered(app, readers, snapshot, request, wanted)


@router.get(
    "/v1/sketches/{name}/histogram",
    tags=["snapshots"],
    response_model=None,
    responses=_SHOWN | responses(UnknownSketch, NoSnapshot, NotAcceptable, Overloaded),
)
def get_histogram(
    name: SketchName,
    app: AppContext,
    caller: ReaderOfName,
    request: Request,
    readers: AppReaders,
    wanted: Wanted,
) -> Response:
    """The newest snapshot of the sketch alone. Reading never spends: it answers 404 until something is released.

    Needs `read`.
    """
    snapshot = read_snapshots.newest_snapshot(app, name)
    return rendered(app, readers, snapshot, request, wanted)
