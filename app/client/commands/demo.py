"""discreet demo: 200,000 page views in, a private histogram beside the truth out, and the budget at its end."""

import time
from argparse import Namespace
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from app.client import demo_shop
from app.client.commands.common import Group
from app.client.connection import Api, Problem, at
from app.client.terminal.bars import Bar, Scale, axis, drawn, ink
from app.client.terminal.output import Style, clean, fitted, styled, width, wrapped, write_line
from app.client.terminal.progress import Progress
from app.client.terminal.tables import amount, cell
from app.client.throwaway_server import Server, running

_SKETCH = "page-views"
_BUDGET = {"epsilon": "1", "delta": "1e-5"}
_TERMS = {"epsilon": "0.8", "delta": "1e-6"}
_BATCH = 10_000
_COUNTERS = 8192
_LARGEST = 4  # rows drawn from the top, then those of these ranks, then the last one
_FURTHER_RANKS = (16, 64, 256)
_LABEL = 10  # columns
_WIDTH, _NAME, _FIGURES = 80, 31, 19  # columns of a line, of a page and of the figures behind its bar
_TICKS = (1, 10, 100, 1_000, 10_000)


def add(commands: Group) -> None:
    """Add `demo`, which needs no server: it starts one."""
    parser = commands.add_parser(
        "demo",
        help="show all of it in seconds, on a throwaway server",
        description="Count the page views of a made-up shop on a throwaway server, release a private histogram, and "
        "draw it beside the truth.",
    )
    parser.add_argument("--keep", action="store_true", help="leave the server running until Ctrl-C, to look around")
    parser.set_defaults(run=_demo)


def _demo(options: Namespace) -> None:
    with Progress("starting a server") as progress:
        progress.say("…")
        with running() as server:
            api = Api(server.url, server.api_key)
            _walk(api, progress)
            api.close()
            if options.keep:
                _keep(server)


def _walk(api: Api, progress: Progress) -> None:
    seen = demo_shop.views()
    api.put(at("sketches", _SKETCH), {"k": _COUNTERS, "budget": _BUDGET, "description": "The shop of the demo"})
    seconds = _send(api, seen, progress)
    best = api.post(at("sketches", _SKETCH, "plan"), _TERMS)["mechanisms"][0]
    snapshot = api.post(at("sketches", _SKETCH, "snapshots"), _TERMS)
    progress.clear()
    _tell_plan(best, seconds)
    truth = demo_shop.truth(seen)
    _draw(snapshot, truth)
    _tell_release(snapshot, truth)
    _try_again(api)


def _send(api: Api, seen: list[str], progress: Progress) -> float:
    start = time.monotonic()
    progress.begin("page views")
    for first in range(0, len(seen), _BATCH):
        batch = seen[first : first + _BATCH]
        api.post(at("sketches", _SKETCH, "events"), {"events": batch}, idempotency_key=f"demo-{first}")
        progress.advance(len(batch), (first + len(batch)) / len(seen))
    return time.monotonic() - start


def _tell_plan(best: Mapping[str, Any], seconds: float) -> None:
    cut, noise = best["parameters"]["threshold"], best["error_bound"]["below"]
    write_line(styled("What the visitors of a web shop look at, and nothing of any one visit.", Style.STRONG))
    write_line()
    _tell("Sent", f"{demo_shop.EVENTS:,} events in {seconds:.1f} s. The budget is {amount(_BUDGET)}.")
    _tell("Planned", f"{best['mechanism']} at {amount(_TERMS)}: at most {noise} too high, cut below {cut}.")
    write_line()


def _tell(label: str, words: str, style: Style = Style.STRONG) -> None:
    first, *others = wrapped(words, indent=_LABEL, most=_WIDTH)
    write_line(styled(fitted(label, _LABEL), style) + first)
    for line in others:
        write_line(" " * _LABEL + line)


# The picture


def _draw(snapshot: Mapping[str, Any], truth: Mapping[str, int]) -> None:
    bars = snapshot["histogram"]
    cut: int = snapshot["parameters"]["threshold"]
    scale = Scale.logarithmic(max(10, min(width(), _WIDTH) - _NAME - _FIGURES), max(bar["high"] for bar in bars))
    write_line(styled(f"{fitted('page', _NAME)} {axis(scale, _TICKS)}     true private", Style.QUIET))
    for bar in bars[:_LARGEST]:
        _row(bar, truth, scale, cut)
    further = [bars[rank - 1] for rank in _FURTHER_RANKS if _LARGEST < rank < len(bars)] + bars[_LARGEST:][-1:]
    write_line(styled(f"… {len(bars) - _LARGEST:,} more, such as", Style.QUIET))
    for bar in further:
        _row(bar, truth, scale, cut)
    for page, times in demo_shop.SECRETS.items():
        line = drawn(Bar(times, times, times), scale, cut=cut, style=Style.ALARM)
        told = next((cell(bar["count"]) for bar in bars if bar["key"] == page), "hidden")
        write_line(f"{fitted(page, _NAME)} {line} {times:8,} {styled(f'{told:>7}', Style.ALARM)}")
    write_line()


def _row(bar: Mapping[str, Any], truth: Mapping[str, int], scale: Scale, cut: int) -> None:
    line = drawn(Bar(bar["count"], bar["low"], bar["high"]), scale, cut=cut)
    write_line(f"{fitted(clean(bar['key']), _NAME)} {line} {truth[bar['key']]:8,} {bar['count']:7,}")


# The words


def _tell_release(snapshot: Mapping[str, Any], truth: Mapping[str, int]) -> None:
    bars = snapshot["histogram"]
    inside = sum(bar["low"] <= truth[bar["key"]] <= bar["high"] for bar in bars)
    pen = ink()
    _tell(
        f"{pen.left}{pen.line}{pen.right}  {pen.cut}",
        f"With probability 0.95 all true counts are within; here {inside} of {len(bars)} are. Pages below the cut, as "
        f"the last {len(demo_shop.SECRETS)}, do not even show their names.",
    )
    _tell("Promised", snapshot["guarantee"])
    _tell("Paid", f"{amount(_TERMS)}. Of {amount(_BUDGET)} this leaves {amount(snapshot['remaining'][0])}.")


def _try_again(api: Api) -> None:
    try:
        api.post(at("sketches", _SKETCH, "snapshots"), _TERMS)
    except Problem as problem:
        fits = problem.document.get("largest_epsilon")
        _tell("Refused", f"the same again, {problem.slug}: at this δ at most ε = {fits} fits.", Style.ALARM)


def _keep(server: Server) -> None:
    write_line()
    write_line(f"The server is still there: {server.url}/ (console), {server.url}/docs. To go on by command:")
    write_line(f"export DISCREET_URL={server.url} DISCREET_KEY={server.api_key}")
    write_line(f"discreet histogram {_SKETCH}")
    write_line("Ctrl-C stops it and removes everything.")
    with suppress(KeyboardInterrupt):  # that is how it is meant to end
        server.wait()
