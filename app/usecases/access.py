"""Who may do what: scopes, and the names of sketches and ledgers that an API key is limited to."""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from app.refusals import Forbidden

Scope = Literal["ingest", "read", "release", "admin"]

EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller, as the presented API key says. `admin` includes the other scopes."""

    scopes: frozenset[str]
    sketches: str  # a name, or a pattern with *
    secret: str = field(repr=False)  # the presented API key: never stored, never logged
    key_id: str | None = None  # none for the API key that the environment gives

    def require(self, scope: Scope) -> None:
        """Forbidden, unless the API key has this scope."""
        if scope not in self.scopes and "admin" not in self.scopes:
            raise Forbidden(f"This needs a key with the scope {scope!r}.")

    def may_touch(self, name: str) -> bool:
        """Whether the API key reaches a sketch or ledger of this name."""
        return fnmatchcase(name, self.sketches)

    def require_name(self, name: str) -> None:
        """Forbidden, unless the API key reaches this name. Only the name decides, so a refusal does not tell whether
        something of that name exists."""
        if not self.may_touch(name):
            raise Forbidden(f"This key is limited to names like {self.sketches!r}.")

    def require_unlimited(self) -> None:
        """Forbidden, unless the API key reaches every name."""
        if self.sketches != EVERYTHING:
            raise Forbidden("This needs a key that is not limited to named sketches.")
