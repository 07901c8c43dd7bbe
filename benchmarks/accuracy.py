"""How wrong a released histogram is: ours, the published parameters, older mechanisms and no privacy, side by side.

Prints the tables and writes them to ACCURACY.md, with accuracy.svg beside it. What is compared is in contenders.py, how
it is measured in measuring.py.
"""

import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.contenders import (
    BETA,
    COMPACT,
    COMPACT_ALONE,
    MEANING,
    OURS,
    SUMMED,
    SUMMED_ALONE,
    UNPROTECTED,
    planned,
)
from benchmarks.measuring import (
    COUNTERS,
    EPSILONS,
    EVENTS,
    FEW,
    MANY,
    MERGE_DELTA,
    REPETITIONS,
    ZIPF,
    Errors,
    Results,
    Setting,
    Stream,
    merged_shards,
    noise_of_each_repetition,
    one_stream,
    streams,
)
from benchmarks.plot import Panel, picture

PLOT_DELTA = "1e-6"
TIE = 1.02  # ratios below it are no difference worth a name

_HERE = Path(__file__).parent


def main() -> None:
    """Measure, print the tables and write them with the plot."""
    start = time.perf_counter()
    noise = noise_of_each_repetition()
    measured = streams()
    single: Results = {}
    merged: Results = {}
    for stream in measured:
        single.update(one_stream(stream, noise))
        if stream.name != MANY:  # no key of it survives in a sketch, merged or not
            merged.update(merged_shards(stream, noise))
    report = "\n\n".join(_report(single, merged, time.perf_counter() - start))
    print(report)
    (_HERE / "ACCURACY.md").write_text(report + "\n")
    (_HERE / "accuracy.svg").write_text(_picture(single, measured))


def _report(single: Results, merged: Results, seconds: float) -> Iterable[str]:
    yield "# Accuracy"
    yield (
        f"{datetime.now(UTC):%Y-%m-%d}, by `make bench-accuracy` in {seconds:.0f} s on {os.cpu_count()} cores "
        f"({platform.machine()}), Python {platform.python_version()}. {EVENTS:,} events, means of {REPETITIONS} "
        "releases. Errors are those of all keys of the universe; a key that is not released counts as 0. Behind × "
        "stands the error divided by ours. The streams are seeded, the noise is not, so a further run differs a little."
    )
    yield "![Largest error of each mechanism](accuracy.svg)"
    yield _summary(single)
    yield from _section("Largest error", single, lambda errors: errors.average_largest)
    yield from _section("Mean error", single, lambda errors: errors.average_mean)
    yield "## Thresholds"
    yield "The smallest count that is released."
    yield _thresholds(single)
    yield "## Merged shards"
    yield (
        f"Largest error when the same events arrive in S shards, δ = {MERGE_DELTA}. Compact: merged to k counters, "
        "released with gshm. Summed: reduced counters added up, released with reduced-approx. The summed way is "
        "expected to win where N/(k+1), which it takes from every frequent key, is small beside √k·ln(k/δ)/ε, the "
        "noise of the other."
    )
    yield _merges(merged)


def _summary(single: Results) -> str:
    rows = []
    for name, meaning in MEANING.items():
        everywhere = [errors[name] for errors in single.values() if name in errors]
        closest = max(max(errors.largest) / max(1, errors.contender.bound) for errors in everywhere)
        beyond = sum(errors.beyond_bound for errors in everywhere)
        rows.append(
            [
                name,
                meaning.format(", ".join(_chosen(single))),
                f"×{number(_typical_ratio(single, name))}",
                f"{beyond} of {REPETITIONS * len(everywhere):,}",
                f"{closest:.0%}",
            ]
        )
    bound = f"beyond its bound (β = {BETA:.0%})"
    return table(["name", "what it is", "Zipf, typical", bound, "closest to it"], rows, words=2)


def _chosen(single: Results) -> list[str]:
    return sorted({planned(setting.k, EVENTS, setting.cost()).mechanism for setting in single})


def _typical_ratio(single: Results, name: str) -> float:
    """The geometric mean, over all settings on the Zipf stream, of the largest error divided by ours."""
    return statistics.geometric_mean(
        errors[name].average_largest / errors[OURS].average_largest
        for setting, errors in single.items()
        if setting.stream == ZIPF and name in errors
    )


def _section(title: str, single: Results, value: Callable[[Errors], float]) -> Iterable[str]:
    for stream in dict.fromkeys(setting.stream for setting in single):
        rows = []
        for setting, errors in single.items():
            if setting.stream == stream:
                ours = value(errors[OURS])
                cells = [_with_ratio(value(errors[name]), ours) if name in errors else "–" for name in MEANING]
                rows.append([str(setting.k), setting.epsilon, setting.delta, *cells])
        yield f"## {title}: {stream}"
        yield table(["k", "ε", "δ", *MEANING], rows)


def _thresholds(single: Results) -> str:
    released = [name for name in MEANING if name != UNPROTECTED]
    rows = []
    for setting, errors in single.items():
        if setting.stream == ZIPF:  # they do not depend on the stream
            cells = [f"{errors[name].contender.threshold:,}" if name in errors else "–" for name in released]
            rows.append([str(setting.k), setting.epsilon, setting.delta, *cells])
    return table(["k", "ε", "δ", *released], rows)


def _merges(merged: Results) -> str:
    rows = [_merge_row(setting, errors) for setting, errors in merged.items()]
    sketches = [COMPACT_ALONE, SUMMED_ALONE]
    head = ["stream", "k", "S", "ε", "N/(k+1)", "√k·ln(k/δ)/ε", *sketches, COMPACT, SUMMED, "less error", "by"]
    return table(head, rows, words=1)


def _merge_row(setting: Setting, errors: dict[str, Errors]) -> list[str]:
    largest = {name: of.average_largest for name, of in errors.items()}
    noise = math.sqrt(setting.k) * math.log(setting.k / float(setting.delta)) / float(setting.epsilon)
    ratio = max(largest[COMPACT], largest[SUMMED]) / min(largest[COMPACT], largest[SUMMED])
    winner = "tie" if ratio < TIE else "compact" if largest[COMPACT] < largest[SUMMED] else "summed"
    return [
        setting.stream,
        str(setting.k),
        str(setting.shards),
        setting.epsilon,
        number(EVENTS / (setting.k + 1)),
        number(noise),
        *(number(largest[name]) for name in (COMPACT_ALONE, SUMMED_ALONE, COMPACT, SUMMED)),
        winner,
        f"×{number(ratio)}",
    ]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], words: int = 0) -> str:
    """Markdown that is aligned as it stands; the first `words` columns to the left, numbers to the right."""
    widths = [max(len(line[column]) for line in (head, *rows)) for column in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        sized = enumerate(zip(cells, widths, strict=True))
        padded = (f"{cell:<{width}}" if at < words else f"{cell:>{width}}" for at, (cell, width) in sized)
        return f"| {' | '.join(padded)} |"

    dashes = ["-" * (width - 1) for width in widths]
    rule = [f":{dash}" if at < words else f"{dash}:" for at, dash in enumerate(dashes)]
    return "\n".join([line(head), line(rule), *map(line, rows)])


def number(value: float) -> str:
    """Three digits, or all whole ones."""
    decimals = 0 if value == 0 or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:,.{decimals}f}"


def _with_ratio(value: float, ours: float) -> str:
    return f"{number(value)} ×{number(value / ours)}"


def _picture(single: Results, measured: list[Stream]) -> str:
    nothing = {stream.name: max(stream.truth.values()) for stream in measured}
    panels = [_panel(single, stream, k, nothing[stream]) for stream in (ZIPF, FEW) for k in COUNTERS]
    subtitle = (
        f"over all keys, {EVENTS:,} events, δ = {PLOT_DELTA}, mean of {REPETITIONS} releases; "
        "logarithmic axis, less is better"
    )
    return picture("Largest error of a released histogram", subtitle, EPSILONS, panels)


def _panel(single: Results, stream: str, k: int, nothing_released: float) -> Panel:
    by_epsilon = {epsilon: single[Setting(stream, k, epsilon, PLOT_DELTA)] for epsilon in EPSILONS}
    rows = {
        name: {epsilon: errors[name].average_largest for epsilon, errors in by_epsilon.items() if name in errors}
        for name in MEANING
        if name != UNPROTECTED
    }
    alone = by_epsilon[EPSILONS[0]][UNPROTECTED].average_largest
    title = f"{stream}, k = {k:,}" + ("" if alone else "; the sketch alone: 0")
    return Panel(title, rows, alone, nothing_released)


if __name__ == "__main__":
    main()
