"""Who may do what: scopes, and the names of sketches and ledgers that an API key is limited to."""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from app.refusals import Forbidden
from app.store.claims import Claim

Scope = Literal["ingest", "read", "release", "admin"]

EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller, as the presented API key says. `admin` includes the other scopes."""

    scopes: frozenset[str]
    sketches: str  # a name, or a pattern with *
    secret: str = field(repr=False)  # the presented API key: never stored, never logged
    api_key_id: str | None = None  # none for the API key that the environment gives

    def require(self, scope: Scope) -> None:
        """Refuse a caller whose API key does not have this scope."""
        if scope not in self.scopes and "admin" not in self.scopes:
            raise Forbidden(f"This needs a key with the scope {scope!r}.")

    def may_touch(self, name: str) -> bool:
        """Whether the API key is for sketches and ledgers of this name."""
        return fnmatchcase(name, self.sketches)

    def require_name(self, name: str) -> None:
        """Forbidden, unless the API key reaches this name. Only the name decides, so a refusal does not tell whether
        something of that name exists."""
        if not self.may_touch(name):
            raise Forbidden(f"This key is limited to names like {self.sketches!r}.")

    def require_unlimited(self) -> None:
        """Refuse a caller whose API key is limited to some names."""
        if self.sketches != EVERYTHING:
            raise Forbidden("This needs a key that is not limited to named sketches.")

    def claim(self, operation: str, target: str, idempotency_key: str, content: bytes) -> Claim:
        """What an idempotency key of this caller stakes, for a request with this content."""
        return Claim.of(secret=self.secret, operation=operation, target=target, key=idempotency_key, content=content)
