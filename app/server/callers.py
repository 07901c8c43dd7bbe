"""Who calls: every route recognises its caller here, by the API key in the head of the request."""

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

    async def recognise(self, scope: Scope, *, checked_again: bool = False) -> Principal:
        """The caller of a request, or Unauthenticated.

        `checked_again`: the request's own transaction will ask whether the API key was revoked. Then a caller who was
        recognised a moment ago is believed, so that a stream of small batches does not ask the database each time.
        """
        secret = _bearer(scope)
        hashed = sha256(secret.encode()).digest()  # so that the time of a search tells nothing of a secret
        caller, until = (self._recent.find(hashed) if checked_again else None) or (None, 0.0)
        if caller is None or until < time.monotonic():
            caller = await run_sync(authenticate, self._context, secret)
            self._recent.put(hashed, (caller, time.monotonic() + _RECENT_SECONDS))
        scope[RECOGNISED] = True
        return caller


def _bearer(scope: Scope) -> str:
    """The secret in the first Authorization header."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, secret = str(value, "latin-1").partition(" ")
            if scheme.lower() == "bearer" and secret:
                return secret
            break
    raise Unauthenticated("Send a key as: Authorization: Bearer <key>.")
