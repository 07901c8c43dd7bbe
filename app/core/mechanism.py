"""What a mechanism is: which sketches its proof covers, how it is calibrated for a question, how it releases a sketch.

Each module of `mechanisms/` defines one and exports it as `MECHANISM`. The planner (`planner.py`) chooses among all
that are there and knows none by name.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Generic, Literal, TypeVar

from app.core.errors import NoMechanism
from app.core.histogram import NoiseBound, Released
from app.core.ledger.budget import Cost
from app.core.noise.samplers import Noise
from app.core.sketches.compact import CompactSketch
from app.core.sketches.state import Sketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch
from app.core.sketches.universe import Universe

Family = Literal["stream", "compact", "summed"]
FAMILIES: Mapping[type[object], Family] = {StreamSketch: "stream", CompactSketch: "compact", SummedSketch: "summed"}

Covered = TypeVar("Covered", bound=Sketch)  # the sketches that a mechanism's proof covers
Taken = TypeVar("Taken", bound=Sketch, contravariant=True)  # what can release all of these can release some of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Everything that the choice of a mechanism may depend on: public parameters, never what a sketch holds."""

    family: Family
    k: int
    max_contributions: int  # events of one person; 1 where a person is one set of keys
    sources: int  # streams in a summed sketch; 1 otherwise
    universe_size: int | None
    cost: Cost  # as it was asked for, in ε or in ρ
    beta: float
    total_share: Fraction = Fraction(0)  # of the cost, for releasing the number of events too; 0 where it is not asked
    paid_in_rho: bool = False  # all ledgers that pay count ρ


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated(ABC, Generic[Taken]):
    """A mechanism with its noise and its threshold chosen for one question. Holds public parameters only."""

    k: int
    max_contributions: int = 1  # m
    threshold: int  # the smallest noisy count that is reported

    @abstractmethod
    def release(self, sketch: Taken, noise: Noise, universe: Universe | None = None) -> Released:
        """Draw noise, and return the noisy counts that are at least the threshold, in key order, and the sketch error.

        What is drawn, and how often, does not depend on what the sketch holds (but for sums of very many keys, see
        `samplers.padded`), nor on whether it knows its own error. `universe` is the declared one of the sketch; a
        mechanism that puts noise on every key needs it.
        """

    @abstractmethod
    def parameters(self) -> dict[str, object]:
        """What a sceptic needs to recompute the guarantee, as it is stored and published."""

    @abstractmethod
    def noise_bound(self, beta: float) -> NoiseBound:
        """What noise and threshold do to a release, except with probability β."""

    @abstractmethod
    def smallest_likely_count(self, beta: float) -> int:
        """The smallest count in the sketch that is reported with probability 1 − β."""

    @property
    def least(self) -> int:
        """The smallest true count that a listed key can have: 1, unless noise alone may list a key."""
        return 1

    def rho(self, charged: Cost) -> Fraction:
        """ρ at which the release is δ-approximately ρ-zCDP: what ε implies, unless the noise itself gives less."""
        return charged.epsilon**2 / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism(Generic[Covered]):
    """A way to release sketches privately, with what people and the planner need to know about it."""

    name: str
    version: int  # of what is drawn and cut; a change that alters the law of the output takes the next number
    theorem: str  # its label in the paper
    description: str  # one line, for people
    rank: int  # its place in lists; of two offers with the same error bound the lower rank comes first
    sketches: tuple[type[Covered], ...]  # the types that the proof covers
    needs_delta: bool  # it cuts at a threshold that hides which keys are stored
    needs_universe: bool  # it puts noise on every possible key
    is_pure: bool  # it charges no δ, also where one is offered
    calibrate: Callable[[Question], Calibrated[Covered]]
    rho_of: Callable[[Mapping[str, Any]], Fraction] | None = None  # of published parameters; None: ρ follows from ε
    reduces: bool = False  # it cuts reduced counters, and misses keys with up to n/(k+1) events that others may list
    needs_rho: bool = False  # its privacy is stated in ρ, which a `zcdp` ledger counts, and not in ε

    @property
    def families(self) -> tuple[Family, ...]:
        """The families of sketch that it may release."""
        return tuple(FAMILIES[sketch] for sketch in self.sketches)

    def calibrated(self, question: Question) -> Calibrated[Covered]:
        """The mechanism with the least noise that the question's cost allows; NoMechanism says why there is none."""
        if self.needs_delta and question.cost.delta == 0:
            raise NoMechanism(f"{self.name} cuts at a threshold and needs a delta above 0, for example 1e-6.")
        if self.needs_universe and question.universe_size is None:
            raise NoMechanism(f"{self.name} needs a sketch with a declared universe.")
        if self.needs_rho and not question.cost.rho_units:
            raise NoMechanism(
                f"{self.name} is priced in ρ: where all ledgers are zcdp, ask for rho instead of epsilon."
            )
        return self.calibrate(replace(question, cost=self._asked(question.cost)))

    def charge(self, asked: Cost) -> Cost:
        """What a ledger pays for a release at this cost: a pure mechanism needs no δ and pays none."""
        cost = self._asked(asked)
        return replace(cost, delta_units=0) if self.is_pure else cost

    def _asked(self, cost: Cost) -> Cost:
        """The cost as the mechanism is calibrated for it: in ε, unless its noise itself says what its ρ is."""
        return cost if self.rho_of else cost.in_epsilon()

    def release(
        self, calibrated: Calibrated[Covered], sketch: Sketch, universe: Universe | None, noise: Noise
    ) -> Released:
        """Draw noise and release the sketch. This is the one place where a sketch meets a mechanism.

        A sketch of a type that the proof does not cover is refused, whatever the question said that it would be.
        """
        if not isinstance(sketch, self.sketches):
            raise NoMechanism(f"{self.name} cannot release this sketch.")
        return calibrated.release(sketch, noise, universe)
