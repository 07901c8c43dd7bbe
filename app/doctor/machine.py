"""Settings, the machine, and the files: who may read them, and whether there is room."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from app.core import kernel
from app.doctor.finding import Finding, Level
from app.settings import Settings

_MEBIBYTE = 1024 * 1024
_FEW_BYTES, _TOO_FEW_BYTES = 1024 * _MEBIBYTE, 100 * _MEBIBYTE


def machine_findings(settings: Settings) -> Iterator[Finding]:
    """What can be said of settings, machine and files, without the database."""
    yield from _settings(settings)
    yield from _machine(settings)
    yield from _files(settings)


def _settings(settings: Settings) -> Iterator[Finding]:
    sqlite = sqlite_path(settings)
    if settings.max_waiting_bytes < settings.max_body_bytes:
        yield Finding(
            "problem",
            "settings",
            "DISCREET_MAX_WAITING_BYTES is below DISCREET_MAX_BODY_BYTES, so the largest batches are always refused.",
            "Raise the first or lower the second.",
        )
    if sqlite and settings.workers > 1:
        yield Finding(
            "warning",
            "settings",
            "Several workers share a SQLite file, which has one writer at a time.",
            "Use one worker, or PostgreSQL.",
        )
    if settings.host not in ("127.0.0.1", "::1", "localhost"):
        yield Finding(
            "warning",
            "settings",
            "The service listens beyond this machine, and keys travel in headers.",
            "Let only a proxy with TLS reach it.",
        )
    yield Finding("ok", "settings", f"The database is {'SQLite' if sqlite else 'PostgreSQL'}.")


def _machine(settings: Settings) -> Iterator[Finding]:
    if kernel.NATIVE:
        yield Finding("ok", "kernel", "Compiled.")
    else:
        yield Finding(
            "warning",
            "kernel",
            "Not compiled: batches are counted in Python, many times slower.",
            "Install a C compiler and the Python headers, and Discreet anew.",
        )
    if settings.workers > (os.cpu_count() or 1):
        yield Finding("warning", "workers", "There are more workers than processors.", "Lower DISCREET_WORKERS.")
    wanted = (sqlite_path(settings) or settings.user_key_path).parent
    folder = next(path for path in (wanted, *wanted.absolute().parents) if path.exists())
    free = shutil.disk_usage(folder).free
    words = f"{free // _MEBIBYTE} MiB are free at {folder}."
    if free < _TOO_FEW_BYTES:
        yield Finding("problem", "disk", words, "Make room: without it nothing can be counted or paid.")
    elif free < _FEW_BYTES:
        yield Finding("warning", "disk", words, "Make room soon.")
    else:
        yield Finding("ok", "disk", words)


def _files(settings: Settings) -> Iterator[Finding]:
    """Who may read what: the database holds true counts, and the user key names people."""
    sqlite = sqlite_path(settings)
    if sqlite:
        yield from _private("data folder", sqlite.parent, 0o700)
        for path in (sqlite, Path(f"{sqlite}-wal"), Path(f"{sqlite}-shm")):
            yield from _private("database file", path, 0o600)
    if not settings.user_key:
        yield from _private("user key", settings.user_key_path, 0o600)


def _private(subject: str, path: Path, wanted: int) -> Iterator[Finding]:
    if not path.exists():
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        level: Level = "problem" if mode & 0o007 else "warning"
        who = "Everybody on this machine" if mode & 0o007 else "The group"
        yield Finding(level, subject, f"{who} may open {path} (mode {mode:o}).", f"Run: chmod {wanted:o} {path}")
    else:
        yield Finding("ok", subject, f"{path} is for its owner alone.")


def sqlite_path(settings: Settings) -> Path | None:
    """The file of a SQLite database; None for PostgreSQL."""
    if not settings.database_url.startswith("sqlite:///"):
        return None
    return Path(settings.database_url.removeprefix("sqlite:///").partition("?")[0])
