"""Part `thresholds`: the smallest count that is released, now, in the version before and by the published formulas."""

import math
from collections.abc import Sequence

from app.core.ledger.budget import Cost
from app.core.mechanisms import gshm, pmg, pmg_gaussian, reduced_approx
from benchmarks import before
from benchmarks.contenders import easy_gshm, published_reduced, published_threshold
from benchmarks.inputs import SOURCES
from benchmarks.report import Claim, Part

_K = 1024
_COUNTERS = (64, 1024, 65_536)
_EPSILONS = ("0.1", "0.5", "0.9", "1", "2")
_CONTRIBUTIONS = (1, 5, 40)
_RHOS = ("0.001", "0.005", "0.02", "0.125", "0.5")
_DELTA, _DELTAS = "1e-6", ("1e-6", "1e-9")
_MOST_OF_GSHM = {64: 0.58, 1024: 0.53, 65_536: 0.51}  # of the version before


def run(part: Part, *, quick: bool) -> None:
    """All of them; a shorter run leaves out the largest sketches, whose calibration before took seconds each."""
    counters = _COUNTERS[:2] if quick else _COUNTERS
    part.say(f"The smallest count that is released, at δ = {_DELTA} unless said. None of it depends on data.")
    _merged(part, counters)
    _several_events(part)
    _reduced(part, counters)
    _in_rho(part)


def _merged(part: Part, counters: Sequence[int]) -> None:
    part.say("### Merged sketches and people's sets")
    part.say(
        "`gshm`: one draw is shared, and hides half of every difference. Before: a draw for each key, calibrated by "
        "the exact inequality of `thm:sparse-gaussian`, l = k. Easy: `lem:gaussian-sparse-easy-version`, for ε < 1."
    )
    rows = []
    for k in counters:
        ratios = []
        for epsilon in _EPSILONS:
            cost = Cost.charged(epsilon=epsilon, delta=_DELTA)
            ours, earlier = gshm.calibrate(k, cost).threshold, before.calibrate_gshm(k, cost).threshold
            easy = f"{easy_gshm(k, cost).threshold:,}" if cost.epsilon < 1 else "–"
            ratios.append(ours / earlier)
            rows.append([f"{k:,}", epsilon, f"{ours:,}", f"{earlier:,}", easy, f"{ratios[-1]:.2f}"])
        words = f"threshold of merged sketches and sets, k = {k:,}, at every ε"
        part.claim(Claim(words, max(ratios), at_most=_MOST_OF_GSHM[k], unit="of before"))
    part.show(["k", "ε", "gshm", "before", "easy", "now / before"], rows, words=0)


def _several_events(part: Part) -> None:
    part.say("### Up to m events of a person")
    part.say(
        f"k = {_K:,}, ε = 1. Before: steps of one event, each at its share of δ. Published: `lem:PMG-multiple-items` "
        "with the threshold of sec:practitioners."
    )
    cost = Cost.charged(epsilon="1", delta=_DELTA)
    rows, worst = [], 0.0
    for m in _CONTRIBUTIONS:
        stream = pmg.calibrate(_K, cost, m).threshold, before.pmg_threshold(cost, m)
        merged = gshm.calibrate(_K, cost, m).threshold, before.calibrate_gshm(_K, cost, m).threshold
        published = published_threshold(1 / m, float(_DELTA) / (m * math.e if m > 1 else 1))
        worst = max(worst, stream[0] / stream[1], merged[0] / merged[1])
        rows.append([str(m), *(f"{threshold:,}" for threshold in (*stream, published, *merged))])
    part.show(["m", "pmg", "before", "published", "gshm", "before"], rows, words=0)
    part.claim(Claim("thresholds for up to m events, at every m", worst, at_most=1, unit="of before"))


def _reduced(part: Part, counters: Sequence[int]) -> None:
    part.say("### Reduced counters")
    part.say(
        "Now n is released beside them, and Σc where there is one source; that is in the threshold. Published: "
        "4 + 2·ln(1/δ)/ε (sec:pure)."
    )
    rows, worst = [], 0.0
    for k in counters:
        for epsilon in _EPSILONS:
            cost = Cost.charged(epsilon=epsilon, delta=_DELTA)
            one, several = (reduced_approx.calibrate(k, 1, sources, cost).threshold for sources in (1, SOURCES))
            earlier, published = before.calibrate_reduced(k, cost).threshold, published_reduced(k, cost).threshold
            worst = max(worst, one / earlier, several / earlier)
            rows.append([f"{k:,}", epsilon, *(f"{threshold:,}" for threshold in (one, several, earlier, published))])
    part.show(["k", "ε", "one source", "several", "before", "published"], rows, words=0)
    part.claim(Claim("threshold of reduced counters, at every k and ε", worst, at_most=1, unit="of before"))


def _in_rho(part: Part) -> None:
    part.say("### One stream on a `zcdp` ledger")
    part.say(
        f"At the same price in ρ and δ, k = {_K:,}. `pmg` is Laplace noise at ε = √(2ρ), all that there was before. "
        "Published: sec:practitioners at that ε."
    )
    rows, worst = [], 0.0
    for delta in _DELTAS:
        for rho in _RHOS:
            cost = Cost.charged_in_rho(rho=rho, delta=delta)
            ours, earlier = pmg_gaussian.calibrate(_K, cost).threshold, pmg.calibrate(_K, cost.in_epsilon()).threshold
            published = published_threshold(math.sqrt(2 * float(rho)), float(delta))
            worst = max(worst, ours / earlier)
            rows.append([delta, rho, f"{ours:,}", f"{earlier:,}", f"{published:,}", f"{ours / earlier:.2f}"])
    part.show(["δ", "ρ", "pmg-gaussian", "pmg", "published", "Gaussian / Laplace"], rows, words=0)
    part.claim(
        Claim("threshold of a stream at an equal price in ρ, at every ρ", worst, at_most=0.55, unit="of Laplace")
    )
