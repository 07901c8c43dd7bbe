"""API keys."""

from typing import Annotated

from fastapi import APIRouter, Path

from app.api.dependencies import AppContext, Operator, Paging, sealed
from app.api.errors import responses
from app.api.inputs import KeyIn, example
from app.api.outputs import KeyOut, NewKeyOut, PageOut
from app.refusals import UnknownApiKey
from app.usecases import manage_api_keys

router = APIRouter(tags=["keys"])


@router.post(
    "/v1/keys",
    status_code=201,
    openapi_extra=example({"name": "web shop", "scopes": ["ingest"], "sketches": "page-*"}),
    responses=responses(),
)
def create_key(body: KeyIn, app: AppContext, caller: Operator) -> NewKeyOut:
    """Make a key. The secret is in this answer and nowhere else. Needs `admin`."""
    return NewKeyOut.created(
        manage_api_keys.create_key(app, body.name, body.scopes, body.sketches, by=caller.api_key_id)
    )


@router.get("/v1/keys", responses=responses())
def list_keys(app: AppContext, caller: Operator, paging: Paging) -> PageOut[KeyOut]:
    """Keys, revoked ones too, without their secrets. Needs `admin`."""
    page = manage_api_keys.list_keys(app, paging.after, paging.limit)
    return PageOut(items=[KeyOut.of(key) for key in page.items], cursor=sealed(page.next))


@router.delete("/v1/keys/{id}", status_code=204, responses=responses(UnknownApiKey))
def revoke_key(
    key_id: Annotated[str, Path(alias="id", pattern=r"^[0-9a-f]{16}$", description="From the list of keys")],
    app: AppContext,
    caller: Operator,
) -> None:
    """Revoke a key; it is refused from now on. Needs `admin`."""
    manage_api_keys.revoke_key(app, key_id, by=caller.api_key_id)
