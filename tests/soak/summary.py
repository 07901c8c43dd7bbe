"""What a soak saw, in a few lines."""

from collections.abc import Iterator

from tests.soak.checking import expected_counts
from tests.soak.soak import Outcome

_KINDS = ("ingest", "read", "release", "merge")
_MOST_FAULTS = 20


def lines(outcome: Outcome) -> Iterator[str]:
    seconds = {kind: sorted(_seconds(outcome, kind)) for kind in (*_KINDS, "setup")}
    every = sorted(second for some in seconds.values() for second in some)
    yield f"requests   {len(every):,} in {outcome.seconds:.0f} s, {len(every) / outcome.seconds:.0f}/s"
    for kind in _KINDS:
        yield f"  {kind:<8} {len(seconds[kind]):,}, {_times(seconds[kind])}"
    yield f"  all      {_times(every)}"
    tallies = outcome.tallies
    yield f"killed     {len(outcome.kills)} workers; {len(outcome.breaks)} requests broken, " + (
        f"{sum(tally.retried for tally in tallies)} retried, {sum(tally.replayed for tally in tallies):,} replayed"
    )
    events, sketches = sum(tally.events for tally in tallies), expected_counts(outcome.truth)
    yield f"counted    {events:,} events in {len(sketches):,} sketches"
    releases = outcome.truth.releases
    ledgers = {ledger for released in releases.values() for ledger, _epsilon, _delta in released.charged}
    refused = sum(tally.refused for tally in tallies)
    yield f"released   {len(releases):,} snapshots paid by {len(ledgers):,} ledgers; refused {refused:,} times"
    yield from (f"FAULT      {fault}" for fault in outcome.faults[:_MOST_FAULTS])
    if len(outcome.faults) > _MOST_FAULTS:
        yield f"           and {len(outcome.faults) - _MOST_FAULTS:,} more"
    yield f"verdict    {f'{len(outcome.faults):,} faults' if outcome.faults else 'every claim holds'}"


def _seconds(outcome: Outcome, kind: str) -> Iterator[float]:
    for tally in outcome.tallies:
        yield from tally.seconds.get(kind, ())


def _times(ordered: list[float]) -> str:
    if not ordered:
        return "none"
    return f"p50 {_at(ordered, 0.5)}, p99 {_at(ordered, 0.99)}, longest {_at(ordered, 1)}"


def _at(ordered: list[float], share: float) -> str:
    return f"{1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]:,.0f} ms"
