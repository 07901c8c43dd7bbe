"""Part `bars`: in how many releases all bars hold at once, and how wide they are, without a promise about n.

The release is the service's own, code and calibration. Only the noise is from a seeded generator of the same laws
(seeded.py), because a thousand releases of 16,384 counters with the operating system's would take hours in all.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.core.histogram import ErrorBound, Released, bars
from app.core.ledger.budget import Cost
from app.core.mechanisms import pmg
from app.core.noise.samplers import Noise
from app.core.planner import Offer, choose
from app.core.planner import run as release
from benchmarks import before
from benchmarks.contenders import BETA, question
from benchmarks.inputs import EVENTS, MEANING, SET, SOURCES, ZIPF, Case, inputs, number_of
from benchmarks.markdown import number
from benchmarks.report import Claim, Part
from benchmarks.seeded import seeded_noise

_COUNTERS = (16, 1024, 16_384)
_COST = Cost.charged(epsilon="1", delta="1e-6")
_RELEASES, _FEWER = 1000, 100
_SEED = 1
_KINDS = {
    "stream": "One stream, released with pmg",
    "merged": f"{SOURCES} streams merged to k counters, released with gshm",
    "summed": f"Reduced counters of {SOURCES} streams added up, released with reduced-approx",
    "sets": f"People's sets of up to {SET} keys, released with gshm",
}
_NARROW = {1024: 0.55, 16_384: 0.75}  # of n/(k+1): the interval of a stream by Zipf's law is at most so wide
_HEAD = ["events", "k", "n/(k+1)", "lowered", "S", "listed", "all hold", "interval", "before", "share", "before"]


@dataclass(frozen=True, slots=True)
class _Found:
    """What the releases of one case gave; medians over all of them."""

    stream: str
    case: Case
    held: int  # releases in which all bars held
    releases: int
    listed: float
    own_error: float  # as it was released
    width: float
    width_before: int

    def row(self) -> list[str]:
        worst = self.case.worst_error
        shown = self.listed > 0
        return [
            self.stream,
            f"{self.case.sketch.k:,}",
            number(worst),
            _lowered(self.case),
            number(self.own_error) if self.own_error >= 0 else f"{self.own_error:.0f}",
            f"{self.listed:,.0f}",
            f"{100 * self.held / self.releases:.1f} %",
            f"{self.width:,.0f}" if shown else "–",
            f"{self.width_before:,}" if shown else "–",
            number(self.width / worst) if shown else "–",
            number(self.width_before / worst) if shown else "–",
        ]


def run(part: Part, *, quick: bool) -> None:
    """Release every sketch a thousand times, and compare all bars with the true counts."""
    releases = _FEWER if quick else _RELEASES
    part.say(
        f"{EVENTS:,} events, ε = 1, δ = 1e-6, β = {BETA:g}, {releases:,} releases of each sketch. {MEANING}\n\n"
        "*All hold*: the releases in which the true count of every listed key lay between the ends of its bar, and "
        "that of every other key was at most `unlisted`; where that has a probability of exactly 95 %, it is seen in "
        "950 ± 7 of 1,000. *Lowered*: by how much the sketch can be too low, which is private; a sum does not know it. "
        "*S*: what was released of the sketch's own error, with noise (median). *Interval*: from the low to the high "
        "end of a bar that is not cut off at 1, noise included (median), and in the version before, with a right "
        "promise about n. *Share*: the same in n/(k+1); of sets, n counts their elements.\n\n"
        "Noise is from a seeded generator of the same laws as the service's; all else is the service's own code."
    )
    noise = seeded_noise(_SEED)
    found = [
        _measured(name, case, noise, releases) for name, k, folded in inputs(_COUNTERS) for case in folded.cases(k)
    ]
    for kind, words in _KINDS.items():
        rows = [each for each in found if each.case.kind == kind]
        part.say(f"### {words}")
        part.show(_HEAD, [each.row() for each in rows])
        fewest = min(100 * each.held / each.releases for each in rows)
        words = f"{kind}: releases in which all bars hold, in the worst of {len(rows)} settings"
        part.claim(Claim(words, fewest, at_least=100 * (1 - BETA), unit="%"))
    _claim_widths(part, found)


def _claim_widths(part: Part, found: Sequence[_Found]) -> None:
    for each in found:
        k = each.case.sketch.k
        if each.case.kind == "stream" and each.stream == ZIPF and k in _NARROW:
            words = f"stream, {ZIPF}, k = {k:,}: interval, noise included ({number(each.width_before)} counts before)"
            part.claim(Claim(words, each.width / each.case.worst_error, at_most=_NARROW[k], unit="of n/(k+1)"))


def _measured(stream: str, case: Case, noise: Noise, releases: int) -> _Found:
    k = case.sketch.k
    offer = choose(question(case.family, k, _COST, sources=case.sources), case.mechanism)
    check = _Check(case, offer)
    held, listed, own_errors, widths = 0, [], [], []
    for _ in range(releases):
        released = release(offer, case.sketch, None, noise).histogram
        bound = offer.noise_bound.with_sketch(released.sketch_error, reduction=released.reduction)
        held += check.all_hold(released, bound)
        listed.append(len(released.counts))
        own_errors.append(bound.sketch or 0)
        widths.append(bound.below + bound.above + (bound.sketch or 0))
    return _Found(
        stream=stream,
        case=case,
        held=held,
        releases=releases,
        listed=statistics.median(listed),
        own_error=statistics.median(own_errors),
        width=statistics.median(widths),
        width_before=_promise_before(case).width(int(case.worst_error)),
    )


def _promise_before(case: Case) -> before.Promise:
    k = case.sketch.k
    if case.mechanism == "pmg":
        return before.pmg_promise(pmg.calibrate(k, _COST), BETA)
    if case.mechanism == "gshm":
        return before.calibrate_gshm(k, _COST).promise(BETA)
    return before.calibrate_reduced(k, _COST).promise(BETA, case.sources)


def _lowered(case: Case) -> str:
    """Of a sum it is not known: its sources are not kept."""
    lowered = getattr(case.sketch, "lowered", None)
    return "–" if lowered is None else f"{lowered:,}"


class _Check:
    """Compares the bars of releases of one sketch with the true counts, all keys at once."""

    def __init__(self, case: Case, offer: Offer) -> None:
        stored = [number_of(key) for key in case.sketch.counters]
        self._position = {key: at for at, key in enumerate(case.sketch.counters)}
        self._truth = case.truth[stored]
        self._not_stored = int(np.delete(case.truth, stored).max(initial=0))
        self._least = offer.calibrated.least
        self._is_first = True

    def all_hold(self, released: Released, bound: ErrorBound) -> bool:
        """Whether every listed key's true count is in its interval, and every other key's at most `unlisted`."""
        if bound.sketch is None or bound.unlisted is None:
            raise RuntimeError("a sketch that was folded just now knows its own error")
        size = len(released.counts)
        at = np.fromiter(map(self._position.__getitem__, released.counts), np.int64, size)
        counts = np.fromiter(released.counts.values(), np.int64, size)
        low = np.maximum(self._least, counts - bound.below)
        high = np.maximum(low, counts + bound.above + bound.sketch)
        if self._is_first:  # as the service itself writes them down
            self._is_first = False
            ends = [(bar.low, bar.high) for bar in bars(released.counts, bound, self._least)]
            if ends != list(zip(low.tolist(), high.tolist(), strict=True)):
                raise RuntimeError("these are not the bars that the service publishes")
        true = self._truth[at]
        others = np.delete(self._truth, at).max(initial=self._not_stored)
        return bool(np.all((low <= true) & (true <= high)) and others <= bound.unlisted)
