"""Broken variants of the service, each by one mistake that somebody could make. The audit must find them all out."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count
from typing import Any

from app.core.histogram import Released
from app.core.mechanism import Calibrated
from app.core.mechanisms import pmg
from app.core.noise.samplers import SYSTEM_NOISE, Noise, Sampler
from app.core.sketches.compact import CompactSketch
from app.core.sketches.state import Sketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.universe import of_values
from tests.audit import neighbours
from tests.audit.case import AnySketch, Case, Release, planned, standard
from tests.audit.cases import NOISE_ALONE, TALL, summed_pure
from tests.streams import LETTERS

DRAWS = 8_000
MANY = 40_000  # where a mistake is small
_SUMMED = neighbours.summed_at_whole_counts(TALL)
FEW = 3_000  # where a release is slow and the mistake is plain


@dataclass(frozen=True, slots=True)
class Mistake:
    name: str
    case: Callable[[], Case]  # made when it is needed
    noise: Noise = SYSTEM_NOISE


def _at_half_scale() -> Noise:
    """Samplers that take half the scale they are asked for."""

    def halved(sampler: Sampler) -> Sampler:
        return lambda scale, size: sampler(scale / 2, size)

    return Noise(halved(SYSTEM_NOISE.laplace), halved(SYSTEM_NOISE.gaussian), SYSTEM_NOISE.below)


def lower_threshold(case: Case, by: int) -> Case:
    return replace(case, calibrated=replace(case.calibrated, threshold=case.calibrated.threshold - by))


def _changed(case: Case, change: Callable[[AnySketch, Released], Released]) -> Case:
    """What is released is changed before it leaves."""

    def release_with(calibrated: Calibrated[Any]) -> Release:
        release = case.release_with(calibrated)
        return lambda sketch, noise: change(sketch, release(sketch, noise))

    return replace(case, release_with=release_with)


def _own_error(sketch: AnySketch, released: Released) -> tuple[int, int]:
    """d and D = d − η."""
    assert isinstance(sketch, StreamSketch)
    assert sketch.lowered is not None
    assert released.sketch_error is not None
    return sketch.lowered, released.sketch_error


def _own_error_as_it_is(sketch: AnySketch, released: Released) -> Released:
    lowered, _ = _own_error(sketch, released)
    return replace(released, sketch_error=lowered)


def _own_error_plus_noise(sketch: AnySketch, released: Released) -> Released:
    lowered, error = _own_error(sketch, released)
    return replace(released, sketch_error=2 * lowered - error)


def _threshold_for_one_event() -> Case:
    """The noise is that for two events."""
    case = planned(
        "pmg",
        "m = 2, S6 and one key twice",
        neighbours.twice_in_s6(2),
        epsilon="1",
        delta="0.104",
        max_contributions=2,
        draws=DRAWS,
    )
    return replace(case, calibrated=replace(case.calibrated, threshold=pmg.calibrate(2, case.cost).threshold))


def _without_the_shared_draw(case: Case) -> Case:
    """PMG takes η as the first of its draws; here it is zero."""

    def release_with(calibrated: Calibrated[Any]) -> Release:
        release = case.release_with(calibrated)

        def unshared(sketch: AnySketch, noise: Noise) -> Released:
            def but_first(sampler: Sampler) -> Sampler:
                return lambda scale, size: [0, *sampler(scale, size)[1:]]

            return release(sketch, Noise(but_first(noise.laplace), but_first(noise.gaussian), noise.below))

        return unshared

    return replace(case, release_with=release_with)


def _without_a_draw(case: Case, call: int = 0) -> Case:
    """The first draw of the first, or another, call of the samplers is zero."""

    def release_with(calibrated: Calibrated[Any]) -> Release:
        release = case.release_with(calibrated)

        def told(sketch: AnySketch, noise: Noise) -> Released:
            return release(sketch, _silenced(noise, call))

        return told

    return replace(case, release_with=release_with)


def _silenced(noise: Noise, call: int) -> Noise:
    calls = count()

    def of(sampler: Sampler) -> Sampler:
        def sample(scale: float, size: int) -> list[int]:
            draws = sampler(scale, size)
            return [0, *draws[1:]] if next(calls) == call else draws

        return sample

    return Noise(of(noise.laplace), of(noise.gaussian), noise.below)


def _without_the_shared_draw_in_the_sketch_error(case: Case) -> Case:
    """What the sketch was lowered by gets its own draw alone. The release is made twice from the same draws; that is
    taken from the second, in which the shared draw is zero."""

    def release_with(calibrated: Calibrated[Any]) -> Release:
        release = case.release_with(calibrated)

        def told(sketch: AnySketch, noise: Noise) -> Released:
            drawn: list[list[int]] = []

            def noted(scale: float, size: int) -> list[int]:
                drawn.append(noise.gaussian(scale, size))
                return drawn[-1]

            released = release(sketch, replace(noise, gaussian=noted))
            again = replace(noise, gaussian=lambda scale, size: drawn.pop(0))
            return replace(released, sketch_error=release(sketch, _silenced(again, 0)).sketch_error)

        return told

    return replace(case, release_with=release_with)


def _for_the_counters_alone(case: Case) -> Case:
    """Noise for a sensitivity of 2k − 1, which n and Σc are forgotten in."""
    calibrated: Any = case.calibrated
    k = calibrated.k
    return replace(case, calibrated=replace(calibrated, scale=calibrated.scale * (2 * k - 1) / (2 * k + 1)))


def _passed_off_as_streams(pair: tuple[CompactSketch, CompactSketch]) -> tuple[StreamSketch, StreamSketch]:
    """Merged sketches as stream sketches with the same counters, which is what PMG takes."""
    left, right = (neighbours.folded(sketch.k, sorted(sketch.counters.items())) for sketch in pair)
    return left, right


def _pmg(state: str, k: int, height: int, delta: str) -> Case:
    return planned("pmg", state, neighbours.in_state(state, k, height), epsilon="1", delta=delta, draws=DRAWS)


def _pmg_gaussian(pair: tuple[StreamSketch, StreamSketch], rho: str, delta: str, m: int = 1) -> Case:
    return planned("pmg-gaussian", "stream", pair, rho=rho, epsilon="1", delta=delta, max_contributions=m, draws=DRAWS)


def _all_lower_by_gaussian_pmg() -> Case:
    return _pmg_gaussian(neighbours.in_state("S1", 4, TALL), "0.5", NOISE_ALONE)


def worst_of_pmg() -> Case:
    """At δ = 0.102 the tail of S6 leaves nothing to spare."""
    return _pmg("S6", 2, 0, "0.102")


def _reduced_approx(pair: tuple[Sketch, Sketch], delta: str) -> Case:
    return planned("reduced-approx", "one key", pair, epsilon="1", delta=delta, draws=DRAWS)


def _reduced_gaussian(pair: tuple[Sketch, Sketch], rho: str, delta: str) -> Case:
    return planned("reduced-gaussian", "one key", pair, epsilon="1", delta=delta, rho=rho, draws=DRAWS)


def _reduced_pure() -> Case:
    pair = neighbours.one_counter_higher(1, TALL - 1)
    universe = of_values(LETTERS[:3])
    return planned("reduced-pure", "one higher", pair, epsilon="1", delta="0", universe=universe, draws=FEW)


def _compact(mechanism: str, pair: tuple[CompactSketch, CompactSketch], delta: str) -> Case:
    return planned(mechanism, "compact", pair, epsilon="1", delta=delta, draws=DRAWS)


def _tall_users(delta: str) -> Case:
    """Three counters rise and what was lowered does not: at k = 3 that is as bad as it gets for correlated noise."""
    return replace(_compact("gshm", neighbours.users(3, TALL), delta), draws=MANY)


def _laplace_for_the_counters_alone() -> Case:
    """Noise for a sensitivity of k, in which what was lowered is forgotten."""
    case = _compact("laplace-compact", neighbours.merged(1, TALL, 1), NOISE_ALONE)
    calibrated: Any = case.calibrated
    return replace(case, calibrated=replace(calibrated, scale=calibrated.scale / 2))


def _standard() -> Case:
    return replace(standard("own keys", neighbours.standard_pair(4), epsilon="1", delta="0.103"), draws=DRAWS)


def _merged_by_pmg(k: int, height: int, differing: int, epsilon: str, delta: str) -> Case:
    pair = _passed_off_as_streams(neighbours.merged(k, height, differing))
    return planned("pmg", "merged", pair, epsilon=epsilon, delta=delta, draws=DRAWS)


def _half_the_noise() -> list[Mistake]:
    noise = _at_half_scale()
    return [
        Mistake("half the noise, pmg S1", lambda: _pmg("S1", 4, TALL, NOISE_ALONE), noise),
        Mistake("half the noise, pmg S3", lambda: _pmg("S3", 4, TALL, NOISE_ALONE), noise),
        Mistake("half the noise, pmg-gaussian S1", _all_lower_by_gaussian_pmg, noise),
        Mistake(
            "half the noise, pmg-gaussian, one key four times",
            lambda: _pmg_gaussian(neighbours.one_counter_higher(4, TALL, by=4), "0.5", NOISE_ALONE, m=4),
            noise,
        ),
        Mistake("half the noise, reduced-approx", lambda: _reduced_approx(_SUMMED, NOISE_ALONE), noise),
        Mistake("half the noise, reduced-pure", lambda: summed_pure(FEW), noise),
        Mistake("half the noise, reduced-gaussian", lambda: _reduced_gaussian(_SUMMED, "0.5", NOISE_ALONE), noise),
        Mistake("half the noise, gshm", lambda: _compact("gshm", neighbours.merged(2, TALL, 2), "0.14"), noise),
        Mistake(
            "half the noise, laplace-compact",
            lambda: _compact("laplace-compact", neighbours.merged(2, TALL, 2), NOISE_ALONE),
            noise,
        ),
    ]


def _two_lower(name: str, case: Callable[[], Case]) -> Mistake:
    return Mistake(f"threshold two lower, {name}", lambda: lower_threshold(case(), by=2))


def _one_lower(name: str, case: Callable[[], Case]) -> Mistake:
    return Mistake(f"threshold one lower, {name}", lambda: lower_threshold(replace(case(), draws=MANY), by=1))


def _lower_thresholds() -> list[Mistake]:
    single = neighbours.beside_nothing(1, [(LETTERS[0], 1)])
    return [
        _two_lower("pmg", worst_of_pmg),
        Mistake("threshold one lower, pmg", lambda: lower_threshold(worst_of_pmg(), by=1)),
        Mistake("threshold for one event, pmg of two", _threshold_for_one_event),
        Mistake(
            "threshold three lower, pmg-gaussian",
            lambda: lower_threshold(_pmg_gaussian(neighbours.in_state("S6", 2, 0), "0.02", "0.0922"), by=3),
        ),
        _two_lower("pmg standard", _standard),
        _two_lower("reduced-approx", lambda: _reduced_approx(single, "0.0189")),
        _two_lower("reduced-gaussian", lambda: _reduced_gaussian(single, "0.05", "0.101")),
        _one_lower("gshm", lambda: _compact("gshm", neighbours.users(4, 0), "0.048")),
        _one_lower("laplace-compact", lambda: _compact("laplace-compact", neighbours.users(1, 0), "0.0843")),
    ]


def _whole_requests() -> list[Mistake]:
    """Two worlds: with one person more, a sender that cuts by count cuts every later request elsewhere."""

    def pair() -> tuple[CompactSketch, CompactSketch]:
        return neighbours.cut_by_count(neighbours.as_one_merge, TALL)

    return [
        Mistake("a request is one merge, gshm", lambda: _compact("gshm", pair(), "0.127")),
        Mistake("a request is one merge, laplace-compact", lambda: _compact("laplace-compact", pair(), NOISE_ALONE)),
    ]


def _total_for_nothing() -> Case:
    """The histogram takes the whole price, as if the total had none."""
    case = planned(
        "pmg",
        "S3, with a total",
        neighbours.in_state("S3", 2, TALL),
        epsilon="1",
        delta=NOISE_ALONE,
        total_share=Fraction(1, 2),
        draws=DRAWS,
    )
    alone = planned("pmg", "S3", neighbours.in_state("S3", 2, TALL), epsilon="1", delta=NOISE_ALONE)
    return replace(case, calibrated=alone.calibrated)


MISTAKES = [
    Mistake("a total that nobody pays for, pmg", _total_for_nothing),
    *_half_the_noise(),
    *_lower_thresholds(),
    *_whole_requests(),
    Mistake(
        "n of a sum without noise, reduced-approx",
        lambda: _without_a_draw(_reduced_approx(_SUMMED, NOISE_ALONE)),
    ),
    Mistake(
        "n and Σc are forgotten in the sensitivity, reduced-approx",
        lambda: _for_the_counters_alone(_reduced_approx(neighbours.one_counter_higher(1, TALL - 1), NOISE_ALONE)),
    ),
    Mistake(
        "n and Σc are forgotten in the sensitivity, reduced-pure", lambda: _for_the_counters_alone(_reduced_pure())
    ),
    Mistake("no shared draw, gshm", lambda: _without_a_draw(_tall_users("0.1"))),
    Mistake("the sketch error without its own draw, gshm", lambda: _without_a_draw(_tall_users("0.1"), call=1)),
    Mistake(
        "the sketch error without the shared draw, gshm",
        lambda: _without_the_shared_draw_in_the_sketch_error(
            replace(_compact("gshm", neighbours.merged(1, TALL, 1), "0.1"), draws=MANY)
        ),
    ),
    Mistake(
        "the sketch error without noise, laplace-compact",
        lambda: _without_a_draw(_compact("laplace-compact", neighbours.merged(2, TALL, 2), NOISE_ALONE)),
    ),
    Mistake("what was lowered is forgotten in the sensitivity, laplace-compact", _laplace_for_the_counters_alone),
    Mistake("pmg without the shared draw", lambda: _without_the_shared_draw(_pmg("S1", 4, TALL, NOISE_ALONE))),
    Mistake("pmg-gaussian without the shared draw", lambda: _without_the_shared_draw(_all_lower_by_gaussian_pmg())),
    Mistake("the own error as it is, pmg", lambda: _changed(_pmg("S1", 2, TALL, NOISE_ALONE), _own_error_as_it_is)),
    Mistake(
        "the own error plus the shared draw, pmg",
        lambda: _changed(_pmg("S1", 2, TALL, NOISE_ALONE), _own_error_plus_noise),
    ),
    Mistake("merged and released by pmg, keys its own", lambda: _merged_by_pmg(4, 1, 4, "1", "0.102")),
    Mistake("merged and released by pmg, half of them lower", lambda: _merged_by_pmg(6, TALL, 3, "2", NOISE_ALONE)),
]
