"""What every use case needs: the database, the noise, the clock. Chosen once, in `main.py`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from app.core.noise import Noise
from app.store.database import Database
from app.store.hot import HotSketches
from app.store.user_key import UserKey


@dataclass(frozen=True, slots=True)
class Context:
    database: Database
    hot: HotSketches
    noise: Noise
    now: Callable[[], datetime]
    admin_key: str | None = field(repr=False)  # DISCREET_ADMIN_KEY
    user_key: UserKey = field(repr=False)
    max_k: int
    max_items: int
    max_histogram_bytes: int  # of the keys that a release lists
