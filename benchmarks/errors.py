"""Parts `errors` and `merged`: how wrong a released histogram is, ours beside the version before, the published
parameters, older mechanisms and no privacy.

What is compared is in contenders.py, how it is measured in measuring.py.
"""

import math
import statistics
from collections.abc import Callable

from app.core.planner import AUTO, choose
from benchmarks.contenders import (
    BETA,
    COMPACT,
    COMPACT_ALONE,
    COMPACT_BEFORE,
    MEANING,
    OURS,
    SUMMED,
    SUMMED_ALONE,
    SUMMED_BEFORE,
    UNPROTECTED,
    question,
)
from benchmarks.markdown import number, table
from benchmarks.measuring import (
    COUNTERS,
    EPSILONS,
    EVENTS,
    FEW,
    MANY,
    MERGE_DELTA,
    ZIPF,
    Errors,
    Repetition,
    Results,
    Setting,
    Stream,
    merged_shards,
    one_stream,
    streams,
)
from benchmarks.plot import Panel, picture
from benchmarks.report import Claim, Part

_REPETITIONS = 20
_PLOT_DELTA = "1e-6"
_TIE = 1.02  # ratios below it are no difference worth a name


def run(part: Part, *, quick: bool) -> None:
    """Measure every contender on every stream, and draw the largest errors."""
    repetitions = _repetitions(quick=quick)
    measured = streams()
    single: Results = {}
    for stream in measured:
        single.update(one_stream(stream, repetitions))
    part.say(
        f"{EVENTS:,} events, means of {len(repetitions)} releases with the operating system's noise. Errors are those "
        "of all keys of the universe; a key that is not released counts as 0. Behind × stands the error divided by "
        "ours. Each contender promises a largest error with every release: ours with the sketch's own error as it "
        "was released, the others with n/(k+1) for a right n. The streams are seeded, the noise is not, so a further "
        "run differs a little."
    )
    part.say(_summary(single, len(repetitions)))
    beyond = {name: [errors[name].beyond_bound for errors in single.values() if name in errors] for name in MEANING}
    worst = max(100 * sum(found) / (len(found) * len(repetitions)) for found in beyond.values())
    part.claim(Claim("largest errors beyond what was promised, worst contender", worst, at_most=100 * BETA, unit="%"))
    _show(part, "Largest error", single, lambda errors: errors.average_largest)
    _show(part, "Mean error", single, lambda errors: errors.average_mean)
    part.say("### The smallest count that is released")
    part.say(_thresholds(single))
    part.picture = _picture(single, measured, len(repetitions))


def run_merged(part: Part, *, quick: bool) -> None:
    """The same events in shards that are merged."""
    repetitions = _repetitions(quick=quick)
    merged: Results = {}
    for stream in streams():
        if stream.name != MANY:  # no key of it survives in a sketch, merged or not
            merged.update(merged_shards(stream, repetitions))
    part.say(
        f"Largest error when the same {EVENTS:,} events arrive in S shards, δ = {MERGE_DELTA}. Compact: merged to k "
        "counters, released with gshm. Summed: reduced counters added up, released with reduced-approx. The summed "
        "way is expected to win where N/(k+1), which it takes from every frequent key, is small beside "
        "√k·ln(k/δ)/ε, the order of the other's noise. *Before* is the version before, with the same draws."
    )
    ways = [COMPACT_ALONE, SUMMED_ALONE, COMPACT_BEFORE, SUMMED_BEFORE, COMPACT, SUMMED]
    head = ["stream", "k", "S", "ε", "N/(k+1)", "√k·ln(k/δ)/ε", *ways, "less error", "by"]
    part.show(head, [_merge_row(setting, errors, ways) for setting, errors in merged.items()])


def _repetitions(*, quick: bool) -> list[Repetition]:
    return [Repetition() for _ in range(5 if quick else _REPETITIONS)]


def _summary(single: Results, repetitions: int) -> str:
    chosen = sorted({choose(question("stream", each.k, each.cost()), AUTO).mechanism for each in single})
    rows = []
    for name, meaning in MEANING.items():
        everywhere = [errors[name] for errors in single.values() if name in errors]
        rows.append(
            [
                name,
                meaning.format(", ".join(chosen)),
                f"×{number(_typical_ratio(single, name))}",
                f"{sum(errors.beyond_bound for errors in everywhere)} of {repetitions * len(everywhere):,}",
                f"{max(errors.closest_to_bound for errors in everywhere):.0%}",
            ]
        )
    bound = f"beyond its bound (β = {BETA:.0%})"
    return table(["name", "what it is", "Zipf, typical", bound, "closest to it"], rows, words=2)


def _typical_ratio(single: Results, name: str) -> float:
    """The geometric mean, over all settings on the Zipf stream, of the largest error divided by ours."""
    return statistics.geometric_mean(
        errors[name].average_largest / errors[OURS].average_largest
        for setting, errors in single.items()
        if setting.stream == ZIPF and name in errors
    )


def _show(part: Part, title: str, single: Results, value: Callable[[Errors], float]) -> None:
    for stream in dict.fromkeys(setting.stream for setting in single):
        rows = []
        for setting, errors in single.items():
            if setting.stream == stream:
                ours = value(errors[OURS])
                cells = [_with_ratio(value(errors[name]), ours) if name in errors else "–" for name in MEANING]
                rows.append([str(setting.k), setting.epsilon, setting.delta, *cells])
        part.say(f"### {title}: {stream}")
        part.say(table(["k", "ε", "δ", *MEANING], rows))


def _with_ratio(value: float, ours: float) -> str:
    return f"{number(value)} ×{number(value / ours)}"


def _thresholds(single: Results) -> str:
    released = [name for name in MEANING if name != UNPROTECTED]
    rows = []
    for setting, errors in single.items():
        if setting.stream == ZIPF:  # they do not depend on the stream
            cells = [f"{errors[name].threshold:,}" if name in errors else "–" for name in released]
            rows.append([str(setting.k), setting.epsilon, setting.delta, *cells])
    return table(["k", "ε", "δ", *released], rows)


def _merge_row(setting: Setting, errors: dict[str, Errors], ways: list[str]) -> list[str]:
    largest = {name: of.average_largest for name, of in errors.items()}
    noise = math.sqrt(setting.k) * math.log(setting.k / float(setting.delta)) / float(setting.epsilon)
    ratio = max(largest[COMPACT], largest[SUMMED]) / min(largest[COMPACT], largest[SUMMED])
    winner = "tie" if ratio < _TIE else "compact" if largest[COMPACT] < largest[SUMMED] else "summed"
    return [
        setting.stream,
        str(setting.k),
        str(setting.shards),
        setting.epsilon,
        number(EVENTS / (setting.k + 1)),
        number(noise),
        *(number(largest[name]) for name in ways),
        winner,
        f"×{number(ratio)}",
    ]


def _picture(single: Results, measured: list[Stream], repetitions: int) -> str:
    nothing = {stream.name: max(stream.truth.values()) for stream in measured}
    panels = [_panel(single, stream, k, nothing[stream]) for stream in (ZIPF, FEW) for k in COUNTERS]
    subtitle = (
        f"over all keys, {EVENTS:,} events, δ = {_PLOT_DELTA}, mean of {repetitions} releases; "
        "logarithmic axis, less is better"
    )
    return picture("Largest error of a released histogram", subtitle, EPSILONS, panels)


def _panel(single: Results, stream: str, k: int, nothing_released: float) -> Panel:
    by_epsilon = {epsilon: single[Setting(stream, k, epsilon, _PLOT_DELTA)] for epsilon in EPSILONS}
    rows = {
        name: {epsilon: errors[name].average_largest for epsilon, errors in by_epsilon.items() if name in errors}
        for name in MEANING
        if name != UNPROTECTED
    }
    alone = by_epsilon[EPSILONS[0]][UNPROTECTED].average_largest
    title = f"{stream}, k = {k:,}" + ("" if alone else "; the sketch alone: 0")
    return Panel(title, rows, alone, nothing_released)
