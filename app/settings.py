"""The settings of the service: read once from environment variables, checked, and then never changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from app.core.sketches.stream import MAX_K

_SMALLEST_ADMIN_KEY = 16  # characters
_SMALLEST_USER_KEY = 32
_TEXTS = ("database_url", "admin_key", "user_key", "user_key_file", "host", "log_level", "log_format")
_AT_LEAST_ONE = (
    "workers",
    "max_body_bytes",
    "max_batch_items",
    "max_waiting_bytes",
    "hot_bytes",
    "body_seconds",
    "max_releases",
    "max_readers",
    "max_histogram_bytes",
)
_LOG_LEVELS = ("debug", "info", "warning", "error")
_LOG_FORMATS = ("json", "text")


class BadSetting(Exception):
    """A setting that the service cannot start with; says what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an operator may choose, with the defaults; each comes from `DISCREET_` and its name in capitals."""

    database_url: str = "sqlite:///data/discreet.db"
    admin_key: str | None = field(default=None, repr=False)
    user_key: str | None = field(default=None, repr=False)
    user_key_file: str = ""
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    max_body_bytes: int = 16 * 1024 * 1024
    max_batch_items: int = 100_000
    max_k: int = MAX_K
    max_waiting_bytes: int = 128 * 1024 * 1024  # of the batches in a worker that are not committed yet
    hot_bytes: int = 1024 * 1024 * 1024  # of the sketches that a worker keeps open
    body_seconds: int = 30  # for a body to arrive
    requests_per_minute: int = 0  # of one API key in one worker; 0: no limit
    failures_per_minute: int = 30  # wrong API keys from one address; 0: no limit
    max_releases: int = 4  # at once in a worker
    max_readers: int = 32  # long answers at once in a worker
    max_histogram_bytes: int = 16 * 1024 * 1024  # of the keys that a release lists, together
    log_level: str = "info"
    log_format: str = ""  # text on a terminal, else json

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """The settings that the environment gives; an empty variable counts as absent. Raises `BadSetting`."""
        given = {
            name: value
            for name in cls.__dataclass_fields__
            if (value := environment.get(f"DISCREET_{name.upper()}", "").strip())
        }
        texts = {name: given.pop(name) for name in _TEXTS if name in given}
        numbers = {name: _whole_number(name, value) for name, value in given.items()}
        return cls(**texts, **numbers)  # type: ignore[arg-type]  # the two dicts hold what each field takes

    def __post_init__(self) -> None:
        self._check_keys()
        self._check_database()
        self._check_numbers()
        self._check_logs()

    def _check_keys(self) -> None:
        admin = self.admin_key
        if admin is not None and not (len(admin) >= _SMALLEST_ADMIN_KEY and admin.isascii() and admin.isprintable()):
            raise BadSetting(f"DISCREET_ADMIN_KEY must have at least {_SMALLEST_ADMIN_KEY} printable ASCII characters.")
        if self.user_key is not None and len(self.user_key) < _SMALLEST_USER_KEY:
            raise BadSetting(f"DISCREET_USER_KEY must have at least {_SMALLEST_USER_KEY} characters, at random.")

    def _check_database(self) -> None:
        if not self.database_url.startswith(("sqlite:///", "postgresql://", "postgresql+psycopg://")):
            raise BadSetting("DISCREET_DATABASE_URL must start with sqlite:/// or postgresql://.")
        if self.database_url == "sqlite:///" or ":memory:" in self.database_url or "mode=memory" in self.database_url:
            raise BadSetting("DISCREET_DATABASE_URL must name a SQLite file: the ledger has to outlive the process.")
        try:
            url = make_url(self.database_url)
            url.get_dialect()().create_connect_args(url)
            malformed = "%00" in self.database_url
        except (ArgumentError, ValueError):  # their words are not repeated, for they may quote a password
            malformed = True
        if malformed:
            raise BadSetting(
                "DISCREET_DATABASE_URL is not well formed. It is sqlite:///path/to/file, or "
                "postgresql://user:password@host:port/database with %-escapes for special characters in the password."
            )

    def _check_numbers(self) -> None:
        if not 1 <= self.max_k <= MAX_K:
            raise BadSetting(f"DISCREET_MAX_K must be from 1 to {MAX_K}.")
        if not 0 <= self.port <= 65535:
            raise BadSetting("DISCREET_PORT must be from 0 to 65535.")
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise BadSetting(f"DISCREET_{name.upper()} must be at least 1.")
        for name in ("requests_per_minute", "failures_per_minute"):
            if getattr(self, name) < 0:
                raise BadSetting(f"DISCREET_{name.upper()} must be 0, for no limit, or more.")

    def _check_logs(self) -> None:
        if self.log_level not in _LOG_LEVELS:
            raise BadSetting(f"DISCREET_LOG_LEVEL must be one of {', '.join(_LOG_LEVELS)}.")
        if self.log_format not in ("", *_LOG_FORMATS):
            raise BadSetting(f"DISCREET_LOG_FORMAT must be one of {', '.join(_LOG_FORMATS)}.")

    @property
    def user_key_path(self) -> Path:
        """Where the user key is kept if it is not in the environment: beside a SQLite file, else in ./data."""
        if self.user_key_file:
            return Path(self.user_key_file)
        sqlite = self.database_url.startswith("sqlite:///")
        folder = Path(self.database_url.removeprefix("sqlite:///").partition("?")[0]).parent if sqlite else Path("data")
        return folder / "user.key"


def _whole_number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise BadSetting(f"DISCREET_{name.upper()} must be a whole number, not {value!r}.") from None
