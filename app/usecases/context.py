"""What every use case needs: the database, the noise, the clock. Chosen once, in `main.py`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy.orm import Session

from app.core.noise.samplers import Noise
from app.refusals import Unauthenticated
from app.store import api_keys
from app.store.database import Database
from app.store.open_sketches import OpenSketches
from app.store.user_key import UserKey
from app.usecases.recent import Recent

if TYPE_CHECKING:
    from app.usecases.report_ledger import Report

_MOST_REPORTS = 256


@dataclass(frozen=True, slots=True)
class Context:
    """What `main.py` chose, for every use case of this process."""

    database: Database
    open_sketches: OpenSketches
    noise: Noise
    now: Callable[[], datetime]
    admin_key: str | None = field(repr=False)  # DISCREET_ADMIN_KEY
    user_key: UserKey = field(repr=False)
    max_k: int
    max_items: int
    max_histogram_bytes: int  # of the keys that a release lists
    reports: "Recent[tuple[str, bytes], Report]" = field(default_factory=lambda: Recent(_MOST_REPORTS), repr=False)

    @contextmanager
    def writing(self, key_id: str | None) -> Iterator[Session]:
        """A transaction for a caller. It is rolled back if the caller's key was revoked while it waited or worked.

        The caller was recognised before, perhaps long before: there may be a queue. So the key is asked for last, when
        nothing is left to wait for. `key_id` is None for the key that the environment gives, which is never revoked.
        """
        with self.database.writing() as session:
            yield session
            if key_id is not None and not api_keys.hold_valid(session, {key_id}):
                raise revoked()


def revoked() -> Unauthenticated:
    """The refusal of a caller whose API key was revoked after the caller was recognised."""
    return Unauthenticated("The key is revoked. Send a valid one.")
