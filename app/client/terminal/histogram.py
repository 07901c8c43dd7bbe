"""A released histogram in the terminal: bars with error bars, the threshold, and the guarantee in words."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from app.client.terminal.bars import Bar, Scale, drawn
from app.client.terminal.output import Style, clean, columns, fitted, spoken, styled, width, wrapped
from app.client.terminal.tables import amount, cell, moment

_MOST_ROWS = 20
_MOST_NAMES = 3
_LEAST_FOR_ENDS = 64  # columns of a terminal that has room for the ends in figures
_LEAST_BAR = 10
LEFT_OUT = "The smallest counts were left out: the keys have more bytes together than the server lists."


def histogram(snapshot: Mapping[str, Any], *, most: int | None = None) -> str:
    """The first counts as bars, at most so many, with a title and a legend; a line says how many more there are. The
    keys that were asked for and are not reported follow, each with what its count is at most."""
    terms = f"{snapshot['mechanism']}, {amount(snapshot)}, {moment(snapshot['created_at'])}"
    lines = _drawn(snapshot, terms, snapshot["parameters"]["threshold"], most)
    for absent in snapshot.get("unlisted", []):
        key, bound = clean(absent["key"]), absent["at_most"]
        told = " is not reported" + ("" if bound is None else f": at most {cell(bound)}")
        lines.append(fitted(key, min(columns(key), width() - len(told))) + told)
    return "\n".join([*lines, "", *legend(snapshot)])


def sum_of_histograms(added: Mapping[str, Any], *, most: int | None = None) -> str:
    """Snapshots that were added up, drawn in the same way."""
    parts = len(added["snapshots"])
    lines = _drawn(added, f"the sum of {parts:,} snapshot{'' if parts == 1 else 's'}", 0, most)
    return "\n".join([*lines, "", *wrapped(_sure(added)), *wrapped("Adding up what was released costs nothing.")])


def _drawn(released: Mapping[str, Any], terms: str, threshold: int, most: int | None) -> list[str]:
    """The title and the first bars, and how many more there are."""
    bars, names = released["histogram"], released["sketches"]
    shown = bars[: most or _MOST_ROWS]
    keys = f"{len(bars):,} key{'' if len(bars) == 1 else 's'}" if bars else "no key to show"
    named = ", ".join(names[:_MOST_NAMES]) + (f" and {len(names) - _MOST_NAMES:,} more" if names[_MOST_NAMES:] else "")
    lines = [styled(clean(f"{named}: {keys}, {terms}"), Style.STRONG), *_rows(shown, threshold)]
    if len(shown) < len(bars):
        lines.append(f"and {len(bars) - len(shown):,} more (--top {len(bars)} shows all)")
    return lines


def _rows(shown: list[dict[str, Any]], threshold: int) -> list[str]:
    if not shown:
        return []
    keys = [clean(bar["key"]) for bar in shown]
    counts = [cell(bar["count"]) for bar in shown]
    ends = [""] * len(shown)
    if width() >= _LEAST_FOR_ENDS:
        ends = [spoken(_ends(bar)) for bar in shown]
    figures = max(map(len, counts)), max(map(columns, ends))
    room = width() - sum(figures) - 6
    names = min(max(map(columns, keys)), max(_LEAST_BAR, room * 2 // 5))
    scale = Scale.linear(max(_LEAST_BAR, room - names), max(bar["high"] or bar["count"] for bar in shown))
    return [
        "  ".join(
            (
                fitted(key, names),
                drawn(Bar(bar["count"], bar["low"], bar["high"]), scale, cut=threshold),
                fitted(count, figures[0], right=True),
                styled(fitted(end, figures[1]), Style.QUIET),
            )
        ).rstrip()
        for key, bar, count, end in zip(keys, shown, counts, ends, strict=True)
    ]


def _ends(bar: Mapping[str, Any]) -> str:
    """The interval, and the share where the total was released."""
    share = bar.get("share")
    return f"{cell(bar['low'])}–{'?' if bar['high'] is None else cell(bar['high'])}" + (f" {share} %" if share else "")


def _total(snapshot: Mapping[str, Any]) -> str:
    """How many there are in all, and how many of keys that are not shown, where that was released."""
    total, other = snapshot.get("total"), snapshot.get("other")
    if total is None:
        return ""
    counted = "people" if total["unit"] == "user" else "events"
    rest = f", {cell(other['count'])} ({_ends(other)}) of other keys" if other else ""
    return f"In all {cell(total['count'])} ({_ends(total)}) {counted}{rest}. "


def legend(snapshot: Mapping[str, Any]) -> list[str]:
    """What the picture means: the threshold, how sure the error bars are, and the guarantee of the release."""
    threshold, reason = snapshot["parameters"]["threshold"], snapshot["error_bound"].get("reason")
    return wrapped(
        f"Counts below {threshold:,} are not reported. {_sure(snapshot)}" + (f" {reason}" if reason else "")
    ) + wrapped(snapshot["guarantee"])


def _sure(released: Mapping[str, Any]) -> str:
    """How many there are in all, how sure the error bars are, and whether something was left out."""
    unlisted = released["error_bound"]["unlisted"]
    missed = "not known" if unlisted is None else f"at most {unlisted:,}"
    return (
        f"{spoken(_total(released))}With probability {1 - Decimal(released['beta']):f} every true count lies within "
        f"its error bar, and that of a key which was not reported is {missed}."
        + (f" {LEFT_OUT}" if released.get("truncated") else "")
    )
