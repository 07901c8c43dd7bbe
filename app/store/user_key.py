"""The key of the fingerprints of people: in the environment or in a file, never in the database.

Whoever has it and the database can test guesses about who contributed; without it nobody can. Replicas need the same.
"""

import os
import secrets
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

from app.core.people import KEY_BYTES


class UserKey:
    """Read, or made, when it is first needed."""

    def __init__(self, given: str | None, path: Path) -> None:
        self._given = given
        self._path = path

    @cached_property
    def value(self) -> bytes:
        text = self._given or self._kept()
        return blake2b(text.encode(), digest_size=KEY_BYTES, person=b"discreet users").digest()

    def _kept(self) -> str:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._make()
        return self._path.read_text().strip()

    def _make(self) -> None:
        """Whole or not at all, and once: several workers may start together."""
        if self._path.exists():
            return
        new = self._path.with_name(f"{self._path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        new.touch(mode=0o600)
        new.write_text(secrets.token_hex(KEY_BYTES) + "\n")
        try:
            os.link(new, self._path)  # fails where another one was faster
        except FileExistsError:
            pass
        finally:
            new.unlink()
