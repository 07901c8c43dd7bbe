"""The key of the fingerprints of people: in the environment or in a file, never in the database.

Whoever has it and the database can test guesses about who contributed; without it nobody can. Replicas need the same.
"""

import os
import secrets
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

from app.core.people import KEY_BYTES
from app.refusals import WrongUserKey


class UserKey:
    """Read when it is first needed. `value` makes one where there is none; `kept` never does."""

    def __init__(self, given: str | None, path: Path) -> None:
        self._given = given
        self._path = path

    @cached_property
    def value(self) -> bytes:
        """The key; a new one, kept in the file, where there is none. For when nobody was counted yet."""
        if not self._given and not self._path.exists():
            self._make()
        return self.kept

    @cached_property
    def kept(self) -> bytes:
        """The key, which must be there: a new one would not be that of the people who were counted."""
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
        if len(kept) < 2 * KEY_BYTES:  # cut off or emptied: it would be a key that everybody can guess
            raise WrongUserKey(f"The file of the user key, {self._path.name}, is damaged. Put it back from a copy.")
        return kept

    def _make(self) -> None:
        """Whole or not at all, and once: several workers may start together."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
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
