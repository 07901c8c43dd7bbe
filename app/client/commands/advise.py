"""discreet advise."""

import json
from argparse import ArgumentParser, Namespace
from typing import Any

from app.client.commands.common import Group, add_command, given, show
from app.client.connection import Api, at
from app.client.terminal.output import clean, wrapped
from app.client.terminal.tables import table

_HEADINGS = ("change", "to", "accountant", "cut", "likely from", "interval width")
_MEMBERS = ("events_per_day", "smallest_count", "days", "covers", "unit", "max_contributions", "beta")


def add(commands: Group) -> None:
    """Add the command that gives advice."""
    advise = add_command(
        commands,
        "advise",
        "say which k, epsilon and delta to take, for what you have and want",
        _advise,
        more="No sketch is read and nothing is spent. The answer has requests that are ready to be sent.",
    )
    advise.add_argument("--events-per-day", type=int, required=True, metavar="N", help="about how many come")
    advise.add_argument("--smallest-count", type=int, metavar="N", help="keys with this count should be listed")
    advise.add_argument("--releases", type=int, dest="number", metavar="N", help="so many in each period; default: 1")
    advise.add_argument("--every", choices=("hour", "day", "week", "month", "year"), help="the period; default: day")
    advise.add_argument("--days", type=int, metavar="N", help="how long the budget must last; default: 365")
    advise.add_argument(
        "--covers",
        choices=("everything", "period"),
        help="one sketch for all days, or a new one with a budget of its own each period; default: everything",
    )
    _add_privacy(advise)


def _add_privacy(advise: ArgumentParser) -> None:
    advise.add_argument("--unit", choices=("event", "user"), help="what is protected; default: event")
    advise.add_argument("--max-contributions", type=int, metavar="M", help="events or keys of a person; default: 1")
    advise.add_argument("--epsilon", help="of the budget, with --delta; default: 1")
    advise.add_argument("--delta", help="of the budget, with --epsilon; default: 1e-6")
    advise.add_argument("--beta", help="error bounds hold with probability 1 - beta; default: 0.05")
    advise.add_argument("--total", action="store_true", help="releases also give the number of events, or people")


def _advise(api: Api, options: Namespace) -> None:
    wish = given(options, *_MEMBERS) | ({"total": True} if options.total else {})
    for member, names in (("releases", ("number", "every")), ("budget", ("epsilon", "delta"))):
        if parts := given(options, *names):
            wish[member] = parts
    advice = api.post(at("advice"), wish)
    show(options, advice, lambda: "\n".join(_in_words(advice)))


def _in_words(advice: dict[str, Any]) -> list[str]:
    release = advice["release"]
    recommended = [
        "recommended",
        "",
        advice["recommended"]["accountant"],
        release["parameters"]["threshold"],
        release["smallest_likely_count"],
        sum(release["error_bound"][part] for part in ("below", "above", "sketch")),
    ]
    steps = [
        [step[name] for name in ("change", "to", "accountant", "threshold", "smallest_likely_count", "interval_width")]
        for step in advice["steps"]
    ]
    bodies = advice["requests"]
    return [
        *wrapped(advice["words"]),
        "",
        table(_HEADINGS, [recommended, *steps], empty=""),
        "",
        clean(f"PUT /v1/sketches/{{name}}            {json.dumps(bodies['create_sketch'])}"),
        clean(f"POST /v1/sketches/{{name}}/snapshots  {json.dumps(bodies['create_snapshot'])}"),
    ]
