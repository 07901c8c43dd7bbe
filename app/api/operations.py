"""For operators: health, metrics, the console and the documentation page, both from our own files."""

from importlib import resources
from pathlib import Path

from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles

from app.api.dependencies import AppContext, Operator
from app.api.errors import Responses, refusing
from app.api.outputs import HealthOut
from app.refusals import Forbidden, Unauthenticated, Unavailable
from app.server import metrics
from app.usecases.check_health import check_ready

router = APIRouter(tags=["operations"])

_PAGES = Path(__file__).parents[1] / "console"
_CONSOLE_POLICY = (  # stricter than the middleware's: no inline style, and no text is ever parsed as HTML
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_COUNTERS: Responses = {
    200: {
        "content": {
            "text/plain": {
                "schema": {"type": "string"},
                "example": 'discreet_requests_total{operation="post_events",status="200"} 3.0\n',
            }
        }
    }
}


@router.get("/livez")
async def livez() -> HealthOut:  # on the event loop, so that it answers when every thread waits for the database
    """The process runs."""
    return HealthOut()


@router.get("/readyz", responses=refusing(Unavailable))
def readyz(app: AppContext) -> HealthOut:
    """The database answers and has the schema that this version needs."""
    check_ready(app)
    return HealthOut()


@router.get(
    "/metrics",
    response_class=Response,
    responses=_COUNTERS | refusing(Unauthenticated, Forbidden, Unavailable),
)
def get_metrics(caller: Operator) -> Response:
    """Prometheus counters of requests. They tell how much is sent, so they need `admin`."""
    return Response(metrics.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/docs", include_in_schema=False)
def docs() -> FileResponse:
    """The page that lists and tries the operations."""
    return FileResponse(_PAGES / "docs.html")


@router.get("/", include_in_schema=False)
def console() -> FileResponse:
    """The web page for people who make sketches and release histograms."""
    return FileResponse(_PAGES / "console.html", headers={"Content-Security-Policy": _CONSOLE_POLICY})


def mount_files(app: FastAPI) -> None:
    """The pages' own files, and swagger-ui's from the package that ships them; no outside request."""
    swagger_ui = resources.files("fastapi_swagger") / "resources"
    app.mount("/static/swagger-ui", StaticFiles(directory=str(swagger_ui)), name="swagger-ui")
    app.mount("/static", StaticFiles(directory=_PAGES), name="static")
