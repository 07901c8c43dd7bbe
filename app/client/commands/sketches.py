"""discreet sketches create | list | show | close | delete | merge."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from app.client.commands.common import LEDGER, SKETCH, Group, add_command, add_group, confirm, given, show
from app.client.connection import Api, at
from app.client.failures import Misuse
from app.client.terminal.tables import amount, facts, moment, table

_HEADINGS = ("name", "k", "unit", "m", "ledger", "ε left", "of", "δ left", "of", "closed")


def add(commands: Group) -> None:
    """Add `sketches` with its actions."""
    actions = add_group(commands, "sketches", "make, list, show, close, delete and merge sketches")
    create = add_command(
        actions,
        "create",
        "make a sketch",
        _create,
        more="Releases are paid from --ledger, or from a budget of its own: --epsilon and --delta.",
    )
    create.add_argument("name", help=SKETCH)
    _add_parameters(create)
    add_command(actions, "list", "list the sketches", _list)
    for name, words, run in (
        ("show", "show parameters and budget; nothing of the events", _show),
        ("close", "take no more events, for good; releases go on", _close),
        ("delete", "erase the data; ledger and snapshots stay", _delete),
    ):
        add_command(actions, name, words, run).add_argument("name", help=SKETCH)
    merge = add_command(actions, "merge", "put the data of sketches into another; they stay", _merge)
    merge.add_argument("name", metavar="target", help="made if it does not exist")
    merge.add_argument("sources", nargs="+", help="sketches whose data go into it")
    merge.add_argument("--mode", choices=("compact", "summed"), default="compact", help="default: compact")


def _add_parameters(create: ArgumentParser) -> None:
    create.add_argument("--k", type=int, default=1024, help="counters; default: 1024")
    create.add_argument("--ledger", help=f"{LEDGER} that pays")
    create.add_argument("--epsilon", help="of a budget of its own")
    create.add_argument("--delta", help="of a budget of its own")
    create.add_argument("--accountant", choices=("basic", "zcdp"), help="of a budget of its own; default: basic")
    create.add_argument("--unit", choices=("event", "user"), help="what is protected; default: event")
    create.add_argument("--max-contributions", type=int, metavar="M", help="events or keys of a person; default: 1")
    create.add_argument("--enforcement", choices=("enforced", "declared"), help="who keeps to M: we, or the senders")
    create.add_argument("--universe-range", type=int, nargs=2, metavar=("FIRST", "LAST"), help="all possible keys")
    create.add_argument("--universe-file", metavar="FILE", help="all possible keys, one a line")
    create.add_argument("--description", help="for people")


def _create(api: Api, options: Namespace) -> None:
    members = ("k", "unit", "max_contributions", "enforcement", "ledger", "description")
    body = given(options, *members)
    budget = given(options, "epsilon", "delta", "accountant")
    if budget:
        body["budget"] = budget
    universe = _universe(options)
    if universe:
        body["universe"] = universe
    sketch = api.put(at("sketches", options.name), body)
    show(options, sketch, lambda: _facts(sketch))


def _universe(options: Namespace) -> dict[str, Any]:
    if options.universe_file is None:
        return {"range": options.universe_range} if options.universe_range else {}
    try:
        return {"values": Path(options.universe_file).read_text("utf-8").splitlines()}
    except (OSError, UnicodeDecodeError):
        raise Misuse(f"{options.universe_file} cannot be read as text.") from None


def _list(api: Api, options: Namespace) -> None:
    page = api.whole(at("sketches"))
    show(options, page, lambda: table(_HEADINGS, [_row(sketch) for sketch in page["items"]], empty="No sketches."))


def _show(api: Api, options: Namespace) -> None:
    sketch = api.get(at("sketches", options.name))
    show(options, sketch, lambda: _facts(sketch))


def _close(api: Api, options: Namespace) -> None:
    sketch = api.post(at("sketches", options.name, "close"))
    show(options, sketch, lambda: f"{sketch['name']} takes no more events. Releases go on.")


def _delete(api: Api, options: Namespace) -> None:
    api.delete(at("sketches", options.name))
    confirm(options, f"The data of {options.name} are erased. Its ledger and snapshots stay, and its name stays taken.")


def _merge(api: Api, options: Namespace) -> None:
    sketch = api.post(at("sketches", options.name, "merges"), given(options, "sources", "mode"))
    show(options, sketch, lambda: _facts(sketch))


def _row(sketch: dict[str, Any]) -> list[object]:
    ledger = sketch["ledger"]
    left, total = ledger["remaining"], ledger["total"]
    return [
        *(sketch[name] for name in ("name", "k", "unit", "max_contributions")),
        ledger["name"],
        *(left["epsilon"], total["epsilon"], left["delta"], total["delta"]),
        moment(sketch["closed_at"]),
    ]


def _facts(sketch: dict[str, Any]) -> str:
    ledger = sketch["ledger"]
    payers: list[str] = sketch["ledgers"]  # of a long list the server sends the first hundred, and the number of all
    more = sketch.get("ledger_count", len(payers)) - len(payers)
    return facts(
        {
            "sketch": sketch["name"],
            "description": sketch["description"],
            "counters": sketch["k"],
            "protects": _protects(sketch),
            "not covered": sketch.get("not_covered"),
            "possible keys": sketch["universe_size"],
            "kind": sketch["family"],
            "paid by": [*payers, f"and {more} more"] if more else payers,
            "budget": f"{amount(ledger['total'])} ({ledger['accountant']})",
            "left": amount(ledger["remaining"]),
            "created": moment(sketch["created_at"]),
            "closed": moment(sketch["closed_at"]),
        }
    )


def _protects(sketch: dict[str, Any]) -> str:
    most = sketch["max_contributions"]
    if sketch["unit"] == "user":
        return f"a person's set of up to {most} keys, {sketch['enforcement']}"
    return "any one event" if most == 1 else f"up to {most} events of a person, {sketch['enforcement']}"
