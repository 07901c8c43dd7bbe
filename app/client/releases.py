"""discreet plan | snapshot | snapshots | histogram."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from app.client.commands import SKETCH, TERMS, Group, add_terms, command, given, new_request_key, show
from app.client.connection import Api, at
from app.client.failures import Misuse, Unreachable
from app.client.pictures import LEFT_OUT, histogram, wrapped
from app.client.tables import amount, moment, table
from app.client.terminal import exact, note

_PATIENCE_SECONDS = 30
_PARAMETERS = ("k", "unit", "max_contributions", "universe_size")


def add(commands: Group) -> None:
    plan = command(
        commands,
        "plan",
        "say what a release would give and cost, without paying",
        _plan,
        more="For a sketch, or for parameters before there is one.",
    )
    plan.add_argument("sketch", nargs="?", help=f"{SKETCH}; without it --k and what follows it say what to plan for")
    add_terms(plan)
    _add_parameters(plan)

    snapshot = command(commands, "snapshot", "release a private histogram and pay for it", _snapshot)
    snapshot.add_argument("sketch", help=SKETCH)
    add_terms(snapshot)
    snapshot.add_argument(
        "--mechanism", metavar="NAME", help="one that plan lists; default: auto, the one with the least error bound"
    )
    snapshot.add_argument("--idempotency-key", metavar="KEY", help="asked again under it, gets the same snapshot, free")

    command(commands, "snapshots", "list what was released of a sketch, newest first", _snapshots).add_argument(
        "sketch", help=SKETCH
    )

    shown = command(commands, "histogram", "draw the newest snapshot of a sketch; free", _histogram)
    shown.add_argument("sketch", help=SKETCH)
    shown.add_argument("--top", type=int, metavar="N", help="only so many of the largest counts")
    shown.add_argument("--min-count", type=int, metavar="N", help="only counts of at least this")
    shown.add_argument("--snapshot", metavar="ID", help="this snapshot instead of the newest")
    shown.add_argument("--csv", action="store_true", help="print CSV instead of a picture")
    shown.add_argument("--svg", metavar="FILE", help="write the picture to a file")


def _add_parameters(plan: ArgumentParser) -> None:
    plan.add_argument("--k", type=int, help="counters")
    plan.add_argument("--unit", choices=("event", "user"))
    plan.add_argument("--max-contributions", type=int, metavar="M")
    plan.add_argument("--universe-size", type=int, metavar="N", help="how many keys are possible")


def _plan(api: Api, options: Namespace) -> None:
    parameters = given(options, *_PARAMETERS)
    if bool(options.sketch) == bool(parameters):
        raise Misuse("Name a sketch to plan for, or give --k and what else it would have, not both.")
    path = at("sketches", options.sketch, "plan") if options.sketch else at("plan")
    plan = api.post(path, given(options, *TERMS) | parameters)
    show(options, plan, lambda: "\n".join(_planned(plan)))


def _planned(plan: dict[str, Any]) -> list[str]:
    best = plan["mechanisms"][0]
    headings = ("mechanism", "cut", "noise −", "noise +", "sketch −", "likely from", "releases left")
    words = [f"auto would take {plan['recommended']}: {amount(best['charge'])}."]
    if plan.get("comparison"):
        words += wrapped(plan["comparison"]["words"])
    return [table(headings, [_offer(offer) for offer in plan["mechanisms"]], empty="No mechanism fits."), "", *words]


def _offer(offer: dict[str, Any]) -> list[object]:
    bound = offer["error_bound"]
    return [
        offer["mechanism"],
        offer["parameters"]["threshold"],
        *(bound["noise_low"], bound["noise_high"], bound["sketch_low"]),
        offer["smallest_likely_count"],
        offer["releases_remaining"],
    ]


def _snapshot(api: Api, options: Namespace) -> None:
    api.patience = _PATIENCE_SECONDS  # safe: there always is an idempotency key
    request_key = options.idempotency_key or new_request_key()
    try:
        snapshot = api.post(
            at("sketches", options.sketch, "snapshots"), given(options, *TERMS, "mechanism"), request_key=request_key
        )
    except Unreachable as unreachable:
        raise Unreachable(f"{unreachable} Ask again with --idempotency-key {request_key}, to pay once.") from None
    show(options, snapshot, lambda: "\n".join([histogram(snapshot), *_paid(snapshot)]))


def _paid(snapshot: dict[str, Any]) -> list[str]:
    left = {each["ledger"]: amount(each) for each in snapshot["remaining"]}
    return [
        f"{each['ledger']} paid {amount(each)}; it had {left[each['ledger']]} left." for each in snapshot["charged"]
    ]


def _snapshots(api: Api, options: Namespace) -> None:
    page = api.whole(at("sketches", options.sketch, "snapshots"))
    headings = ("id", "when", "mechanism", "ε", "δ", "cut")
    show(options, page, lambda: table(headings, [_summary(item) for item in page["items"]], empty="Nothing released."))


def _summary(item: dict[str, Any]) -> list[object]:
    amounts = (item["epsilon"], item["delta"])
    return [item["id"], moment(item["created_at"]), item["mechanism"], *amounts, item["parameters"]["threshold"]]


def _histogram(api: Api, options: Namespace) -> None:
    if options.csv and options.json:
        raise Misuse("Choose one of --csv and --json.")
    path = at("snapshots", options.snapshot) if options.snapshot else at("sketches", options.sketch, "histogram")
    query = given(options, "top", "min_count")
    if options.svg:
        _save(options.svg, api.ask("GET", path, query=query, accept="image/svg+xml").body)
    if options.csv:
        answer = api.ask("GET", path, query=query, accept="text/csv")
        exact(answer.body.decode())
        if "X-Histogram-Truncated" in answer.headers:
            note(LEFT_OUT)
    elif options.json or not options.svg:
        snapshot = api.get(path, **query)
        show(options, snapshot, lambda: histogram(snapshot, most=options.top))


def _save(file: str, picture: bytes) -> None:
    try:
        Path(file).write_bytes(picture)
    except OSError as error:
        raise Misuse(f"{file} cannot be written: {error.strerror}.") from None
    note(f"The picture is in {file}.")
