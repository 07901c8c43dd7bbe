"""What a release rests on, in a form that an entry of a ledger can be hashed over.

The hash chain protects the entries; this ties to them what lies beside: the parameters of a sketch, whose data it
holds, and what was released. Sets that may be large (a universe, the ledgers and the sketches whose data were merged)
and the snapshot enter by their SHA-256, so an entry stays small.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import islice

from app.core.people import Enforcement, Unit
from app.core.planner import Family
from app.core.sketches.parameters import Contributions

_TOGETHER = 1000
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode

# Key, count, low, high, and the number of the bar in key order. Earlier versions hashed bars without that number.
HashedBar = tuple[str, int, int, int | None, int] | tuple[str, int, int, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SketchBasis:
    """The public facts of a sketch by which its releases are planned and paid.

    Its members are hashed as they are named here, for good. So they are spelled out, and do not follow
    `SketchParameters`, whose universe is here by its digest; a test sees that no parameter is left out.
    """

    sketch: str
    k: int
    unit: Unit
    max_contributions: int
    enforcement: Enforcement
    universe_digest: str | None
    family: Family
    sources: int
    counted_by_request: bool
    ledgers_digest: str  # of the names of all that pay
    origins_digest: str  # of the names of the sketches whose events it holds


def ledger_basis(accountant: str, contributions: Contributions | None) -> dict[str, object]:
    """What of a ledger never changes besides its name, for its first entry."""
    bound = {"unit": contributions.unit, "max": contributions.most} if contributions else None
    return {"accountant": accountant, "contributions": bound}


def release_basis(bases: Sequence[SketchBasis], snapshot_digest: str) -> dict[str, object]:
    """What a release of these sketches rests on: of a single one all its facts, of several together how many they are
    and the digest of theirs, because an entry is written once for each ledger."""
    if len(bases) == 1:
        return asdict(bases[0]) | {"snapshot_digest": snapshot_digest}
    together = {"together": len(bases), "bases_digest": digest([asdict(basis) for basis in bases])}
    return together | {"snapshot_digest": snapshot_digest}


def digest(value: object) -> str:
    """SHA-256 of the value as JSON: members in order of their names, without spaces."""
    return sha256(_canonical(value).encode()).hexdigest()


def snapshot_digest(
    *,
    snapshot: str,
    sketches: Sequence[str],
    created_at: str,
    document: Mapping[str, object],
    bars: Iterable[HashedBar],
) -> str:
    """SHA-256 of a release: a line of JSON with all but its histogram, and one with the list of its bars.

    The bars come by count, as they are stored; those of earlier versions, which were stored by key, come by key. So a
    large histogram is hashed while it is read, and no more than a thousand bars of it are in memory.
    """
    named: dict[str, object] = {"sketch": sketches[0]} if len(sketches) == 1 else {"sketches": list(sketches)}
    about = named | {"snapshot": snapshot, "created_at": created_at, "document": document}
    hashed = sha256(f"{_canonical(about)}\n[".encode())
    remaining, separator = iter(bars), ""
    while some := list(islice(remaining, _TOGETHER)):
        hashed.update(f"{separator}{_canonical(some)[1:-1]}".encode())
        separator = ","
    hashed.update(b"]")
    return hashed.hexdigest()
