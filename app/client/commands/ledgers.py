"""discreet ledgers create | list | show | entries | report | set-budget."""

from argparse import ArgumentParser, Namespace
from typing import Any

from app.client.commands.common import LEDGER, Group, add_command, add_group, given, show
from app.client.connection import Api, at
from app.client.terminal.output import wrapped
from app.client.terminal.tables import amount, facts, moment, table

_HEADINGS = ("name", "accountant", "ε left", "of", "δ left", "of", "more like the last")


def add(commands: Group) -> None:
    """Add `ledgers` with its actions."""
    actions = add_group(commands, "ledgers", "make, list, show and change budgets, on a server")
    create = add_command(actions, "create", "make a budget that several sketches may share", _create)
    _add_total(create)
    create.add_argument("--accountant", choices=("basic", "zcdp"), help="how costs add up; default: basic")
    create.add_argument("--max-contributions", type=int, metavar="M", help="of a person to all its sketches together")
    create.add_argument("--unit", choices=("event", "user"), default="event", help="of --max-contributions")
    add_command(actions, "list", "list the ledgers", _list)
    for name, words, run in (
        ("show", "show total, spent and left", _show),
        ("entries", "list the payments and changes, oldest first", _entries),
        ("report", "state what is proven of all releases together, and what is spent", _report),
    ):
        add_command(actions, name, words, run).add_argument("name", help=LEDGER)
    change = add_command(actions, "set-budget", "give a ledger another total, never below what is spent", _set_budget)
    _add_total(change)
    change.add_argument("--reason", required=True, help="stays in the ledger for good")


def _add_total(parser: ArgumentParser) -> None:
    parser.add_argument("name", help=LEDGER)
    parser.add_argument("--epsilon", required=True, help="the total")
    parser.add_argument("--delta", required=True, help="the total")


def _create(api: Api, options: Namespace) -> None:
    body = given(options, "epsilon", "delta", "accountant")
    if options.max_contributions is not None:
        body["contributions"] = {"unit": options.unit, "max": options.max_contributions}
    ledger = api.put(at("ledgers", options.name), body)
    show(options, ledger, lambda: _facts(ledger))


def _set_budget(api: Api, options: Namespace) -> None:
    ledger = api.post(at("ledgers", options.name, "budget"), given(options, "epsilon", "delta", "reason"))
    show(options, ledger, lambda: _facts(ledger))


def _list(api: Api, options: Namespace) -> None:
    page = api.whole(at("ledgers"))
    rows = [
        (
            ledger["name"],
            ledger["accountant"],
            *(ledger["remaining"]["epsilon"], ledger["total"]["epsilon"]),
            *(ledger["remaining"]["delta"], ledger["total"]["delta"]),
            ledger["releases_like_the_last"],
        )
        for ledger in page["items"]
    ]
    show(options, page, lambda: table(_HEADINGS, rows, empty="No ledgers."))


def _show(api: Api, options: Namespace) -> None:
    ledger = api.get(at("ledgers", options.name))
    show(options, ledger, lambda: _facts(ledger))


def _entries(api: Api, options: Namespace) -> None:
    page = api.whole(at("ledgers", options.name, "entries"))
    headings = ("number", "kind", "when", "ε", "ρ", "δ", "mechanism", "for")
    rows = [
        (
            entry["number"],
            entry["kind"],
            moment(entry["created_at"]),
            *(entry["epsilon"], entry["rho"], entry["delta"]),
            entry["mechanism"],
            entry["snapshot"] or entry["reason"],
        )
        for entry in page["items"]
    ]
    show(options, page, lambda: table(headings, rows, empty="No entries."))


def _report(api: Api, options: Namespace) -> None:
    report = api.get(at("ledgers", options.name, "report"))
    show(options, report, lambda: "\n".join(_report_in_words(report)))


def _report_in_words(report: dict[str, Any]) -> list[str]:
    """What is proven comes first. What a zcdp ledger has spent is no guarantee, so it is called bookkeeping."""
    numerical, rho = report["numerical"], report["spent"].get("rho")
    spent = f"{amount(report['spent'])} of {amount(report['total'])}"
    changes = [
        f"Entry {change['number']}, after a release, set the total to {amount(change)}"
        + (f", which adds {amount(change['adds'])} to the guarantee." if change["adds"] else ".")
        for change in report["budget_changes"]
    ]
    lines = [
        report["statement"],
        *changes,
        f"Bookkeeping: spent {spent} (ρ = {rho})." if rho else f"Spent: {spent}.",
        f"Numerically: {amount(numerical)}. {numerical['note']}" if numerical else "",
    ]
    return [part for line in lines if line for part in wrapped(line)]


def _facts(ledger: dict[str, Any]) -> str:
    bound = ledger["contributions"]
    return facts(
        {
            "ledger": ledger["name"],
            "accountant": ledger["accountant"],
            "total": amount(ledger["total"]),
            "spent": amount(ledger["spent"]) + (f" (ρ = {ledger['rho']}; no guarantee)" if ledger["rho"] else ""),
            "left": amount(ledger["remaining"]),
            "releases like the last": ledger["releases_like_the_last"],
            "of a person": f"up to {bound['max']}, unit {bound['unit']}, in all its sketches" if bound else None,
            "created": moment(ledger["created_at"]),
        }
    )
