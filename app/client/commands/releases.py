"""discreet plan | snapshot | snapshots | histogram | sum."""

import json
import secrets
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from app.client.commands.common import SKETCH, TERMS, Group, add_command, add_terms, given, show
from app.client.connection import Answer, Api, at
from app.client.failures import Misuse, Unreachable
from app.client.terminal.histogram import LEFT_OUT, histogram, sum_of_histograms
from app.client.terminal.output import wrapped, write_exactly, write_note
from app.client.terminal.tables import amount, moment, table

_PATIENCE_SECONDS = 30
_PARAMETERS = ("k", "unit", "max_contributions", "universe_size")


def add(commands: Group) -> None:
    """Add the commands that plan, make and show releases."""
    _add_plan(commands)
    _add_snapshot(commands)
    add_command(commands, "snapshots", "list what was released of a sketch, newest first", _snapshots).add_argument(
        "sketch", help=SKETCH
    )
    _add_histogram(commands)
    _add_sum(commands)


def _add_plan(commands: Group) -> None:
    plan = add_command(
        commands,
        "plan",
        "say what a release would give and cost, without paying",
        _plan,
        more="For a sketch, for several together, or for parameters before there is one.",
    )
    plan.add_argument(
        "sketches",
        nargs="*",
        metavar="sketch",
        help=f"{SKETCH}; without it --k and what follows it say what to plan for",
    )
    _add_mode(plan)
    add_terms(plan)
    plan.add_argument("--expected-events", type=int, metavar="N", help="what if the sketch held so many?")
    _add_parameters(plan)


def _add_snapshot(commands: Group) -> None:
    snapshot = add_command(
        commands,
        "snapshot",
        "release a private histogram and pay for it",
        _snapshot,
        more="Several sketches are released together as one, and stay as they are.",
    )
    snapshot.add_argument("sketches", nargs="+", metavar="sketch", help=SKETCH)
    _add_mode(snapshot)
    add_terms(snapshot)
    snapshot.add_argument(
        "--mechanism", metavar="NAME", help="one that plan lists; default: auto, the one with the least error bound"
    )
    snapshot.add_argument("--idempotency-key", metavar="KEY", help="asked again under it, gets the same snapshot, free")


def _add_histogram(commands: Group) -> None:
    shown = add_command(commands, "histogram", "draw the newest snapshot of a sketch; free", _histogram)
    shown.add_argument("sketch", help=SKETCH)
    shown.add_argument(
        "event_keys",
        nargs="*",
        metavar="event-key",
        help="only these keys; of one that is not reported, what its count is at most",
    )
    _add_selection(shown)
    shown.add_argument("--snapshot", metavar="ID", help="this snapshot instead of the newest")
    shown.add_argument("--svg", metavar="FILE", help="write the picture to a file")


def _add_sum(commands: Group) -> None:
    added = add_command(
        commands,
        "sum",
        "add up snapshots of different sketches, such as days; free",
        _sum,
        more="Error bars are added up too, and hold together less often than each: release the parts with a smaller "
        "--beta.",
    )
    added.add_argument("snapshots", nargs="+", metavar="id", help="id of a snapshot")
    _add_selection(added)


def _add_mode(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--mode", choices=("summed", "compact"), help="how several are taken together; default: the better"
    )


def _add_selection(parser: ArgumentParser) -> None:
    parser.add_argument("--top", type=int, metavar="N", help="only so many of the largest counts")
    parser.add_argument("--min-count", type=int, metavar="N", help="only counts of at least this")
    parser.add_argument("--order", choices=("count", "key"), help="default: count, the largest first")
    parser.add_argument("--csv", action="store_true", help="print CSV instead of a picture")


def _add_parameters(plan: ArgumentParser) -> None:
    plan.add_argument("--k", type=int, help="counters")
    plan.add_argument("--unit", choices=("event", "user"))
    plan.add_argument("--max-contributions", type=int, metavar="M")
    plan.add_argument("--universe-size", type=int, metavar="N", help="how many keys are possible")


def _plan(api: Api, options: Namespace) -> None:
    parameters = given(options, *_PARAMETERS)
    if bool(options.sketches) == bool(parameters):
        raise Misuse("Name a sketch to plan for, or give --k and what else it would have, not both.")
    together = _together(options)
    path = at("plan") if parameters or together else at("sketches", *options.sketches, "plan")
    plan = api.post(path, given(options, *TERMS, "expected_events") | parameters | together)
    show(options, plan, lambda: "\n".join(_plan_in_words(plan)))


def _together(options: Namespace) -> dict[str, Any]:
    """The members of a request for several sketches; none where it is for one."""
    if len(options.sketches) > 1:
        return {"sketches": options.sketches, **given(options, "mode")}
    if options.mode:
        raise Misuse("--mode is for several sketches.")
    return {}


def _plan_in_words(plan: dict[str, Any]) -> list[str]:
    best = plan["mechanisms"][0]
    headings = ("mechanism", "cut", "noise −", "noise +", "sketch +", "likely from", "releases left")
    mode = f" in mode {best['mode']}" if best["mode"] else ""
    words = [f"auto would take {plan['recommended']}{mode}: {amount(best['charge'])}."]
    if plan.get("in_rho"):
        better = plan["in_rho"]
        cut, rho = better["parameters"]["threshold"], better["charge"]["rho"]
        words += wrapped(f"For the same price, --rho {rho} would take {better['mechanism']} and cut at {cut:,}.")
    if plan.get("comparison"):
        words += wrapped(plan["comparison"]["words"])
    if plan.get("larger_k"):
        words += wrapped(plan["larger_k"])
    return [
        table(headings, [_offer_cells(offer) for offer in plan["mechanisms"]], empty="No mechanism fits."),
        "",
        *words,
    ]


def _offer_cells(offer: dict[str, Any]) -> list[object]:
    bound = offer["error_bound"]
    return [
        offer["mechanism"],
        offer["parameters"]["threshold"],
        *(bound["below"], bound["above"], bound["sketch"]),
        offer["smallest_likely_count"],
        offer["releases_remaining"],
    ]


def _snapshot(api: Api, options: Namespace) -> None:
    api.patience = _PATIENCE_SECONDS  # retries are safe, since there always is an idempotency key
    idempotency_key = options.idempotency_key or secrets.token_hex(8)
    together = _together(options)
    path = at("snapshots") if together else at("sketches", *options.sketches, "snapshots")
    try:
        snapshot = api.post(path, given(options, *TERMS, "mechanism") | together, idempotency_key=idempotency_key)
    except Unreachable as unreachable:
        raise Unreachable(f"{unreachable} Ask again with --idempotency-key {idempotency_key}, to pay once.") from None
    show(options, snapshot, lambda: "\n".join([histogram(snapshot), *_payments(snapshot)]))


def _payments(snapshot: dict[str, Any]) -> list[str]:
    left = {each["ledger"]: amount(each) for each in snapshot["remaining"]}
    return [
        f"{each['ledger']} paid {amount(each)}; it had {left[each['ledger']]} left." for each in snapshot["charged"]
    ]


def _snapshots(api: Api, options: Namespace) -> None:
    page = api.whole(at("sketches", options.sketch, "snapshots"))
    headings = ("id", "when", "mechanism", "ε", "ρ", "δ", "cut")
    rows = [
        (
            snapshot["id"],
            moment(snapshot["created_at"]),
            snapshot["mechanism"],
            *(snapshot.get("epsilon"), snapshot.get("rho"), snapshot["delta"]),
            snapshot["parameters"]["threshold"],
        )
        for snapshot in page["items"]
    ]
    show(options, page, lambda: table(headings, rows, empty="Nothing released."))


def _histogram(api: Api, options: Namespace) -> None:
    if options.csv and options.json:
        raise Misuse("Choose one of --csv and --json.")
    path = at("snapshots", options.snapshot) if options.snapshot else at("sketches", options.sketch, "histogram")
    query = given(options, "top", "min_count", "order") | {"key": options.event_keys or None}
    if options.svg:
        _save(options.svg, api.ask("GET", path, query=query, accept="image/svg+xml").body)
    if options.csv:
        _write_csv(api.ask("GET", path, query=query, accept="text/csv"))
    elif options.json or not options.svg:
        snapshot = api.get(path, **query)
        show(options, snapshot, lambda: histogram(snapshot, most=options.top or len(options.event_keys)))


def _sum(api: Api, options: Namespace) -> None:
    if options.csv and options.json:
        raise Misuse("Choose one of --csv and --json.")
    answer = api.ask(
        "POST",
        at("snapshots", "sum"),
        json.dumps({"snapshots": options.snapshots}).encode(),
        query=given(options, "top", "min_count", "order"),
        accept="text/csv" if options.csv else "application/json",
        repeatable=True,
    )
    if options.csv:
        _write_csv(answer)
    else:
        added = answer.json()
        show(options, added, lambda: sum_of_histograms(added, most=options.top))


def _write_csv(answer: Answer) -> None:
    write_exactly(answer.body.decode())
    if "X-Histogram-Truncated" in answer.headers:
        write_note(LEFT_OUT)


def _save(file: str, picture: bytes) -> None:
    try:
        Path(file).write_bytes(picture)
    except OSError as error:
        raise Misuse(f"{file} cannot be written: {error.strerror}.") from None
    write_note(f"The picture is in {file}.")
