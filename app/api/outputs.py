"""The JSON of responses: ledgers, sketches, keys, and what several responses share. None can hold a sketch's state.

Plans and releases are in `release_outputs.py`, a ledger's report in `reports.py`. The models without a docstring have
none on purpose: it would go into the OpenAPI document.
"""

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar, cast

from pydantic import BaseModel, Field, GetJsonSchemaHandler, SerializerFunctionWrapHandler, model_serializer
from pydantic.json_schema import JsonSchemaValue, SkipJsonSchema
from pydantic_core import CoreSchema

from app.core.ledger.chain import ChainedEntry
from app.core.mechanisms import MECHANISMS
from app.usecases.manage_api_keys import ApiKeyView, NewApiKey
from app.usecases.views import LedgerView, SketchView

T = TypeVar("T")

EXAMPLE = MECHANISMS[0]  # the mechanism that the documentation shows

EpsilonOut = Annotated[str, Field(description="ε, exactly", examples=["0.5"])]
RhoOut = Annotated[str, Field(description="ρ, exactly", examples=["0.005"])]
DeltaOut = Annotated[str, Field(description="δ, exactly", examples=["1e-6"])]


class AmountOut(BaseModel):
    epsilon: EpsilonOut
    delta: DeltaOut


class Sparse(BaseModel):
    """A model whose absent members are left out instead of being null."""

    @model_serializer(mode="wrap")
    def _those_given(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if value is not None}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """That of the members: of what is serialized, pydantic would only say that it is an object."""
        members = {name: value for name, value in schema.items() if name != "serialization"}
        return handler(cast(CoreSchema, members))


class ContributionsOut(BaseModel):
    unit: str = Field(description="Events, or sets of keys", examples=["event"])
    max: int = Field(description="The most that one person contributes to all its sketches together", examples=[5])


class LedgerOut(BaseModel):
    """The public state of a budget. It moves with releases, never with events."""

    name: str = Field(examples=["page-views"])
    accountant: str = Field(description="How costs add up", examples=["basic"])
    total: AmountOut = Field(examples=[{"epsilon": "1", "delta": "1e-5"}])
    spent: AmountOut = Field(
        description="What the releases so far come to. Of a `basic` ledger it is the guarantee that holds; of a `zcdp` "
        "ledger it is bookkeeping, and the guarantee is in the report",
        examples=[{"epsilon": "0.5", "delta": "1e-6"}],
    )
    remaining: AmountOut = Field(
        description="The total minus what is spent; of a `zcdp` ledger bookkeeping too",
        examples=[{"epsilon": "0.5", "delta": "9e-6"}],
    )
    rho: str | None = Field(description="ρ spent, at a `zcdp` ledger", examples=[None])
    releases_like_the_last: int | None = Field(
        description="How many more releases of the last one's cost fit; null before the first", examples=[1]
    )
    contributions: ContributionsOut | None = Field(
        description="A bound over all its sketches; null where each has its own"
    )
    created_at: datetime

    @classmethod
    def of(cls, ledger: LedgerView) -> "LedgerOut":
        """The ledger as it is answered."""
        return cls(
            name=ledger.name,
            accountant=ledger.accountant,
            total=AmountOut(**ledger.total.as_strings()),
            spent=AmountOut(**ledger.spent.as_strings()),
            remaining=AmountOut(**ledger.remaining.as_strings()),
            rho=ledger.rho,
            releases_like_the_last=ledger.releases_like_the_last,
            contributions=ContributionsOut(unit=ledger.contributions.unit, max=ledger.contributions.most)
            if ledger.contributions
            else None,
            created_at=ledger.created_at,
        )


class MechanismParametersOut(Sparse):
    """What a sceptic needs to recompute the guarantee."""

    noise: str = Field(description="The law of each draw", examples=["discrete-laplace"])
    scale: str | SkipJsonSchema[None] = Field(None, description="Of each Laplace draw, in counts", examples=["2"])
    sigma: str | SkipJsonSchema[None] = Field(None, description="Of each Gaussian draw, in counts")
    shared_sigma: str | SkipJsonSchema[None] = Field(None, description="Of the Gaussian draw that all counts share")
    own_sigma: str | SkipJsonSchema[None] = Field(None, description="Of each count's own Gaussian draw")
    lattice: int | SkipJsonSchema[None] = Field(None, description="Gaussian draws are multiples of 1/lattice")
    threshold: int = Field(description="The smallest noisy count that is reported", examples=[33])
    k: int = Field(description="Counters of the sketch", examples=[1024])
    max_contributions: int | SkipJsonSchema[None] = Field(None, description="Events per person", examples=[1])
    sources: int | SkipJsonSchema[None] = Field(None, description="Streams whose reduced counters were added up")
    universe_size: int | SkipJsonSchema[None] = Field(None, description="Keys that got noise, stored or not")
    total_noise: str | SkipJsonSchema[None] = Field(None, description="The law of the draw on the total")
    total_scale: str | SkipJsonSchema[None] = Field(None, description="Its scale, or its σ where it is Gaussian")


class EntryOut(BaseModel):
    """One line of a ledger. `open` and `budget` set the total; `release` is a payment, with what was run.

    `sketch` and `merge` say that a sketch which the ledger pays for was made, or holds its data now; they cost nothing.
    """

    number: int = Field(description="1, 2, 3 … in this ledger", examples=[2])
    kind: str = Field(description="`open`, `budget`, `sketch`, `merge` or `release`", examples=["release"])
    created_at: datetime
    epsilon: EpsilonOut | None = Field(None, description="null where a release is stated in ρ", examples=["0.5"])
    rho: RhoOut | None = Field(None, description="Of a release that is stated in ρ; else null", examples=[None])
    delta: DeltaOut
    reason: str = Field(description="Why the budget was changed", examples=[""])
    snapshot: str | None = Field(description="Id of what was paid for", examples=["0f8fad5bd9cb469fa16570867728950e"])
    mechanism: str | None = Field(examples=[EXAMPLE.name])
    mechanism_version: int | None = Field(description="Of what is drawn and cut", examples=[1])
    parameters: MechanismParametersOut | None
    hash: str = Field(description="SHA-256 in hex over this entry, what it rests on and the hash of the one before")

    @classmethod
    def of(cls, view: ChainedEntry) -> "EntryOut":
        """The entry as it is answered."""
        entry = view.entry
        return cls(
            number=entry.sequence,
            kind=entry.kind,
            created_at=datetime.fromisoformat(entry.created_at),
            reason=entry.reason,
            snapshot=entry.snapshot,
            mechanism=entry.mechanism,
            mechanism_version=entry.mechanism_version,
            parameters=MechanismParametersOut.model_validate(entry.parameters) if entry.parameters else None,
            hash=view.hash.hex(),
            **entry.cost().as_strings(),
        )


class SketchOut(BaseModel):
    """Public parameters and budget state. Nothing in it depends on the events."""

    name: str = Field(examples=["page-views"])
    k: int = Field(description="Counters", examples=[1024])
    unit: str = Field(description="What is counted and protected", examples=["event"])
    max_contributions: int = Field(description="Events of a person, or keys in a person's set", examples=[1])
    enforcement: str = Field(
        description="`enforced`: no more of a named user was counted. `declared`: the senders are trusted",
        examples=["declared"],
    )
    description: str = Field(examples=["Page views of the shop"])
    family: str = Field(description="How it was built, which decides what may release it", examples=["stream"])
    universe_size: int | None = Field(description="How many keys are possible; null if undeclared", examples=[None])
    ledger: LedgerOut = Field(description="The ledger of its own events")
    ledgers: list[str] = Field(
        description="Ledgers whose data it holds; each pays for a release. By name, and of more than 100 the 100 that "
        "were made first",
        examples=[["a"]],
    )
    ledger_count: int = Field(description="How many ledgers there are whose data it holds", examples=[1])
    created_at: datetime
    closed_at: datetime | None = Field(description="null while it takes events", examples=[None])
    not_covered: str | None = Field(
        description="What the guarantee of its snapshots does not cover; null where it covers all that was counted",
        examples=[None],
    )

    @classmethod
    def of(cls, sketch: SketchView) -> "SketchOut":
        """The sketch as it is answered."""
        return cls(
            name=sketch.name,
            k=sketch.parameters.k,
            unit=sketch.parameters.unit,
            max_contributions=sketch.parameters.max_contributions,
            enforcement=sketch.parameters.enforcement,
            description=sketch.description,
            family=sketch.family,
            universe_size=sketch.parameters.universe_size,
            ledger=LedgerOut.of(sketch.ledger),
            ledgers=sketch.ledgers,
            ledger_count=sketch.ledger_count,
            created_at=sketch.created_at,
            closed_at=sketch.closed_at,
            not_covered=sketch.not_covered,
        )


class ReceiptOut(BaseModel):
    accepted: int = Field(
        description="How many events, or users' sets, your batch has, counts added up. A function of your request "
        "alone: it does not tell how many of them counted",
        examples=[552],
    )


class KeyOut(BaseModel):
    id: str = Field(description="For DELETE; not secret", examples=["9f86d081884c7d65"])
    name: str = Field(examples=["web shop"])
    scopes: list[str] = Field(examples=[["ingest"]])
    sketches: str = Field(description="The sketch and ledger names it may touch", examples=["page-*"])
    created_at: datetime
    revoked_at: datetime | None = Field(description="null while it works", examples=[None])

    @classmethod
    def of(cls, key: ApiKeyView) -> "KeyOut":
        """The API key as it is answered, without its secret."""
        return cls.model_validate(key, from_attributes=True)


class NewKeyOut(KeyOut):
    secret: str = Field(description="Shown now and never again", examples=["dsk_9f86d081884c7d65_…"])

    @classmethod
    def created(cls, new: NewApiKey) -> "NewKeyOut":
        """A new API key as it is answered once, with its secret."""
        return cls(**KeyOut.of(new.key).model_dump(), secret=new.secret)


class PageOut(BaseModel, Generic[T]):
    items: list[T]
    cursor: str | None = Field(description="Pass it as `cursor` for the next page; null on the last", examples=[None])


class HealthOut(BaseModel):
    status: Literal["ok"] = "ok"
