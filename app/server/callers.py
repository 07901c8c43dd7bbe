"""Who calls: every route recognises its caller here, by the API key in the head of the request."""

import asyncio
import time
from hashlib import sha256

from anyio.to_thread import run_sync
from starlette.types import Scope

from app.refusals import Unauthenticated
from app.usecases.access import Principal
from app.usecases.context import Context
from app.usecases.manage_api_keys import authenticate
from app.usecases.recent import Recent

_MOST_RECENT = 10_000
_RECENT_SECONDS = 10.0
RECOGNISED = "discreet.recognised"  # in a request's scope: its API key turned out to be valid


class Callers:
    """Recognises callers. For the event loop's thread alone."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._recent: Recent[bytes, tuple[Principal, float]] = Recent(_MOST_RECENT)  # by hash of the secret
        self._asked: dict[bytes, asyncio.Task[Principal]] = {}  # those whom the database is being asked about

    async def recognise(self, scope: Scope, *, checked_again: bool = False) -> Principal:
        """The caller of a request, or Unauthenticated.

        `checked_again`: the request's own transaction will ask whether the API key was revoked. Then a caller who was
        recognised a moment ago is believed, so that a stream of small batches does not ask the database each time; and
        requests that come while the database is being asked wait for that answer.
        """
        secret = _bearer(scope)
        if checked_again:
            hashed = sha256(secret.encode()).digest()  # so that the time of a search tells nothing of a secret
            caller, until = self._recent.find(hashed) or (None, 0.0)
            if caller is None or until < time.monotonic():
                caller = await self._ask_once(hashed, secret)
        else:
            caller = await run_sync(authenticate, self._context, secret)
        scope[RECOGNISED] = True
        return caller

    async def _ask_once(self, hashed: bytes, secret: str) -> Principal:
        """Ask the database, once for all who wait; a request that is given up does not take the answer from others."""
        asked = self._asked.get(hashed)
        if asked is None:
            asked = self._asked[hashed] = asyncio.create_task(self._ask(hashed, secret))
            asked.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be left to see it
        return await asyncio.shield(asked)

    async def _ask(self, hashed: bytes, secret: str) -> Principal:
        try:
            caller = await asyncio.to_thread(authenticate, self._context, secret)  # not in the pool of other routes
            self._recent.put(hashed, (caller, time.monotonic() + _RECENT_SECONDS))
            return caller
        finally:
            del self._asked[hashed]


def _bearer(scope: Scope) -> str:
    """The secret in the first Authorization header."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, rest = str(value, "latin-1").partition(" ")
            secret = rest.strip()
            if scheme.lower() == "bearer" and secret:
                return secret
            break
    raise Unauthenticated("Send a key as: Authorization: Bearer <key>.")
