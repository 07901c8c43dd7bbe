"""Sketches: made, read, merged, deleted."""

from fastapi import APIRouter, Response

from app.api.dependencies import (
    AdminOfName,
    AppContext,
    MergeTarget,
    Paging,
    Reader,
    ReaderOfName,
    SketchName,
    sealed,
)
from app.api.errors import Responses, responses
from app.api.inputs import MergeIn, SketchIn, example
from app.api.outputs import PageOut, SketchOut
from app.core.errors import IncompatibleSketches, InvalidNumber
from app.refusals import Closed, Conflict, UnknownLedger, UnknownSketch
from app.usecases import manage_sketches
from app.usecases import merge_sketches as merging

router = APIRouter()

_CREATED: Responses = {
    200: {"description": "The same sketch exists already"},
    201: {"model": SketchOut, "description": "Created"},
}


@router.put(
    "/v1/sketches/{name}",
    tags=["sketches"],
    openapi_extra=example(
        {
            "k": 16_384,
            "unit": "event",
            "budget": {"epsilon": "1", "delta": "1e-6"},
            "description": "Page views of the shop",
        }
    ),
    responses=_CREATED | responses(InvalidNumber, Conflict, UnknownLedger),
)
def create_sketch(
    name: SketchName, body: SketchIn, app: AppContext, caller: AdminOfName, response: Response
) -> SketchOut:
    """Make a sketch; 200 if the same one exists already. Needs `admin`.

    Releases are paid from a shared `ledger`, or from a `budget` of the sketch's own. The name of a deleted sketch
    stays taken.
    """
    if body.ledger is not None:
        caller.require_name(body.ledger)
    sketch, created = manage_sketches.create_sketch(app, name, body.spec(), by=caller.api_key_id)
    response.status_code = 201 if created else 200
    return SketchOut.of(sketch)


@router.get("/v1/sketches", tags=["sketches"], responses=responses())
def list_sketches(app: AppContext, caller: Reader, paging: Paging) -> PageOut[SketchOut]:
    """Sketches by name: public parameters and budget state. Needs `read`."""
    page = manage_sketches.list_sketches(app, caller.sketches, paging.after, paging.limit)
    return PageOut(items=[SketchOut.of(sketch) for sketch in page.items], cursor=sealed(page.next))


@router.get("/v1/sketches/{name}", tags=["sketches"], responses=responses(UnknownSketch))
def get_sketch(name: SketchName, app: AppContext, caller: ReaderOfName) -> SketchOut:
    """Public parameters and budget state; no event count, no key count. Needs `read`."""
    return SketchOut.of(manage_sketches.get_sketch(app, name))


@router.delete("/v1/sketches/{name}", tags=["sketches"], status_code=204, responses=responses(UnknownSketch))
def delete_sketch(name: SketchName, app: AppContext, caller: AdminOfName) -> None:
    """Erase the data. The ledger with its history and the snapshots stay, and the name stays taken. Needs `admin`."""
    manage_sketches.delete_sketch(app, name, by=caller.api_key_id)


@router.post("/v1/sketches/{name}/close", tags=["sketches"], responses=responses(UnknownSketch))
def close_sketch(name: SketchName, app: AppContext, caller: AdminOfName) -> SketchOut:
    """Take no more events, for good. Releases go on. Needs `admin`.

    Of a sketch that counted people, their fingerprints are erased, and the guarantee stands; where a ledger counts them
    over several sketches, once the last of these is closed.
    """
    return SketchOut.of(manage_sketches.close_sketch(app, name, by=caller.api_key_id))


@router.post(
    "/v1/sketches/{name}/merges",
    tags=["sketches"],
    status_code=201,
    openapi_extra=example({"sources": ["page-views"], "mode": "compact"}),
    responses=responses(UnknownSketch, Closed, Conflict, IncompatibleSketches),
)
def merge_sketches(name: MergeTarget, body: MergeIn, app: AppContext, caller: AdminOfName) -> SketchOut:
    """Put the data of the sources into the target, which is made if it does not exist. Needs `admin` for all of them.

    The target then holds the data of all their ledgers, and each pays for a release of it. An event may come in by one
    way only: sketches that hold events of the same sketch cannot be merged.
    """
    for source in body.sources:
        caller.require_name(source)
    return SketchOut.of(merging.merge_sketches(app, name, body.sources, body.mode, by=caller.api_key_id))
