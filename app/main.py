"""Wires settings, database, noise, clock, routes and edge. Only this module, `cli.py` and the doctor see everything."""

import asyncio
import gc
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from app import __version__, logs
from app.api import advice, errors, events, keys, ledgers, operations, sketches, snapshots
from app.api.intake import Intake
from app.core import kernel
from app.core.noise.samplers import SYSTEM_NOISE, Noise
from app.server import metrics, room
from app.server.admission import Admission
from app.server.answers import Readers
from app.server.body import Deadline
from app.server.callers import Callers
from app.server.connection import Connection
from app.server.dispatch import Dispatch
from app.server.guard import Guard
from app.server.limits import Limits
from app.server.supervision import end_with_supervisor
from app.settings import Settings
from app.store.database import Database
from app.store.open_sketches import OpenSketches
from app.store.user_key import UserKey
from app.usecases.context import Context

_DESCRIPTION = """
Sketches of event streams in, differentially private histograms out, every release paid for.

**Try it here**: press *Authorize* and paste a key (the first start printed one). Then make a sketch, post events, plan,
release a snapshot and read the histogram: open each and press *Execute*, the examples work as they stand. The budget in
the example covers two of the example releases; the third is refused.

Amounts (ε, δ, β) may be sent as decimal strings or numbers and come back as strings, exactly as charged. Errors are
RFC 9457 problems whose `type` is stable.
"""

_TAGS = [
    {"name": "advice", "description": "Which parameters to take, before anything is made"},
    {"name": "ledgers", "description": "Budgets that pay for releases. Optional: a sketch may bring its own"},
    {"name": "sketches", "description": "Small summaries of event streams. What is in them is never shown"},
    {"name": "events", "description": "What goes in"},
    {"name": "snapshots", "description": "What comes out: plans and releases, stored once paid for and free to read"},
    {"name": "keys", "description": "Who may do what"},
    {"name": "operations", "description": "For those who run the service"},
]

_NO_TELEMETRY = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}

_SWEEP_SECONDS = 15
_KEEP_ALIVE_SECONDS = (
    75  # longer than proxies do: a batch sent on a connection just closed may be sent, and count, twice
)
_SHUTDOWN_SECONDS = 25  # for requests in flight; orchestrators kill after 30
# Then a worker is replaced. On a busy machine one needs more than uvicorn's 5 just to start, and would be replaced for
# ever. Not much longer: a worker that dies just while it is asked is not noticed before, nor is a signal.
_SILENT_SECONDS = 15

log = logging.getLogger("discreet")


class Service(FastAPI):
    """The app, behind its edge."""

    edge: ASGIApp
    context: Context
    callers: Callers
    intake: Intake
    limits: Limits
    readers: Readers
    all_routes: list[BaseRoute]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.edge(scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        """FastAPI's layers without the outermost, which would answer failures before `Guard` can."""
        outermost = super().build_middleware_stack()
        if not isinstance(outermost, ServerErrorMiddleware):
            raise TypeError("the outermost layer of the framework is another one than it was")
        return outermost.app

    def openapi(self) -> dict[str, Any]:
        return errors.documented(super().openapi())


def build_context(settings: Settings, noise: Noise = SYSTEM_NOISE) -> Context:
    """What every use case needs. `noise` is for tests alone: no setting and no request reaches it."""
    return Context(
        database=Database(settings.database_url),
        open_sketches=OpenSketches(settings.hot_bytes),
        noise=noise,
        now=lambda: datetime.now(UTC),
        admin_key=settings.admin_key,
        user_key=UserKey(settings.user_key, settings.user_key_path),
        max_k=settings.max_k,
        max_items=settings.max_batch_items,
        max_histogram_bytes=settings.max_histogram_bytes,
    )


def create_app(settings: Settings, context: Context) -> Service:
    """The service as an ASGI app: its routes, behind its edge."""
    app = Service(
        title="Discreet",
        version=__version__,
        description=_DESCRIPTION,
        openapi_tags=_TAGS,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # it would answer with a host name that the client chose
        lifespan=_lifespan,
        exception_handlers=errors.HANDLERS,
        generate_unique_id_function=lambda route: route.name,
        telemetry=_NO_TELEMETRY,  # type: ignore[arg-type]  # it would export request bodies
    )
    _equip(app, settings, context)
    routers = [module.router for module in (advice, ledgers, sketches, events, snapshots, keys, operations)]
    for router in routers:
        app.include_router(router)
    app.all_routes = [route for router in routers for route in router.routes]
    operations.mount_files(app)
    return app


def _equip(app: Service, settings: Settings, context: Context) -> None:
    """Give the app what its routes ask for, and its edge."""
    app.context = context
    app.callers = Callers(context)
    app.intake = Intake(context, Admission(settings.max_waiting_bytes), settings.max_body_bytes)
    app.limits = Limits(
        requests_per_minute=settings.requests_per_minute,
        failures_per_minute=settings.failures_per_minute,
        max_releases=settings.max_releases,
    )
    app.readers = Readers(settings.max_readers)
    quick_routes = [route for route in events.router.routes if isinstance(route, APIRoute)]
    dispatch = Dispatch(app, super(Service, app).__call__, quick_routes)
    app.edge = Guard(dispatch, app.limits, Deadline(settings.body_seconds))


@asynccontextmanager
async def _lifespan(app: Service) -> AsyncIterator[None]:
    """From the start of a worker to its end, after the last request was answered."""
    sweeping = asyncio.create_task(_sweep(app.context.open_sketches))
    yield
    sweeping.cancel()
    app.intake.close()
    app.context.database.close()


async def _sweep(open_sketches: OpenSketches) -> None:
    """Let go of sketches that nobody writes to any more."""
    while True:
        await asyncio.sleep(_SWEEP_SECONDS)
        open_sketches.drop_idle()


def uvicorn_options(settings: Settings) -> dict[str, Any]:
    """What `uvicorn.run("app.main:serving", …)` is given."""
    proxies = os.environ.get("FORWARDED_ALLOW_IPS", "").strip()
    return {
        "factory": True,
        "host": settings.host,
        "port": settings.port,
        "workers": settings.workers,
        "http": Connection,
        "ws": "none",
        "backlog": room.queue_length(),
        "proxy_headers": bool(proxies),  # uvicorn would believe whoever connects from this machine
        "forwarded_allow_ips": proxies,
        "server_header": False,
        "access_log": False,  # /metrics counts requests; a line for each would cost more than most of them
        "log_config": logs.configuration(settings.log_level, settings.log_format),
        "timeout_keep_alive": _KEEP_ALIVE_SECONDS,
        "timeout_graceful_shutdown": _SHUTDOWN_SECONDS,
        "timeout_worker_healthcheck": _SILENT_SECONDS,
    }


def serving() -> Service:
    """What a worker runs; `discreet serve` has migrated the database before it starts one."""
    room.raise_limit()
    end_with_supervisor()
    settings = Settings.from_environment(os.environ)
    metrics.WORKERS.labels(__version__, "compiled" if kernel.NATIVE else "python").set(1)
    if not kernel.NATIVE:
        log.warning("the kernel is not compiled, so batches are read and folded in Python, many times slower")
    app = create_app(settings, build_context(settings))
    # What the start has made lives as long as the worker. The collector need not look through it again and again: that
    # would hold up all requests for some 60 ms about every second.
    gc.collect()
    gc.freeze()
    return app
