"""The key of the fingerprints of people: in the environment or in a file, never in the database.

Whoever has it and the database can test guesses about who contributed; without it nobody can. Replicas need the same.
"""

import os
import secrets
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

from app.core.errors import WrongUserKey
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
        kept = self._path.read_text().strip()
        if len(kept) < 2 * KEY_BYTES:  # cut off or emptied: it would be a key that everybody can guess
            raise WrongUserKey(f"The file of the user key, {self._path.name}, is damaged. Put it back from a copy.")
        return kept

    def _make(self) -> None:
        """Whole or not at all, and once: several workers may start together."""
        if self._path.exists():
            return
        new = self._path.with_name(f"{self._path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(KEY_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())  # a power cut must not leave it empty
        try:
            os.link(new, self._path)  # fails where another one was faster
        except FileExistsError:
            pass
        finally:
            new.unlink()
