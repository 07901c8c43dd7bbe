"""The user key, under which people's names become fingerprints: in the environment or a file, never in the database.

Whoever has both the user key and the database can test guesses about who contributed; with the database alone nobody
can. All replicas need the same user key.
"""

import os
import secrets
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

from app.core.people import KEY_BYTES
from app.refusals import WrongUserKey


class UserKey:
    """The user key, read when it is first needed. `value` makes a new one where there is none; `kept` never does."""

    def __init__(self, given: str | None, path: Path) -> None:
        self._given = given
        self._path = path

    @cached_property
    def value(self) -> bytes:
        """The user key, made and written to the file if there is none; for when nobody was counted yet."""
        if not self._given and not self._path.exists():
            self._make()
        return self.kept

    @cached_property
    def kept(self) -> bytes:
        """The user key, which must exist: under a new one, people who were counted would not be recognised."""
        text = self._given or self._read()
        return blake2b(text.encode(), digest_size=KEY_BYTES, person=b"discreet users").digest()

    def _read(self) -> str:
        try:
            kept = self._path.read_bytes().decode("ascii").strip()
        except FileNotFoundError:
            raise WrongUserKey(
                f"People were counted under a user key, and its file, {self._path.name}, is missing. Put it back from "
                "a copy, or start the server with the DISCREET_USER_KEY that it had then."
            ) from None
        except UnicodeDecodeError:
            kept = ""
        if len(kept) < 2 * KEY_BYTES:  # the file was cut off or emptied: such a key could be guessed
            raise WrongUserKey(f"The file of the user key, {self._path.name}, is damaged. Put it back from a copy.")
        return kept

    def _make(self) -> None:
        """Write a new user key to the file, whole or not at all; of several workers that start together, one does."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self._path.with_name(f"{self._path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(KEY_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())  # a power cut must not leave it empty
        try:
            os.link(new, self._path)  # fails if another worker was faster
        except FileExistsError:
            pass
        finally:
            new.unlink()
