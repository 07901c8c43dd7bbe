"""discreet keys create | list | revoke."""

from argparse import Namespace
from typing import Any

from app.client.commands import Group, command, done, given, group, show
from app.client.connection import Api, at
from app.client.tables import facts, moment, table

_SCOPES = ("ingest", "read", "release", "admin")


def add(commands: Group) -> None:
    actions = group(commands, "keys", "make, list and revoke API keys")
    create = command(actions, "create", "make a key and show its secret, this once", _create)
    create.add_argument("name", help="for people; need not be unique")
    create.add_argument(
        "--scope",
        dest="scopes",
        action="append",
        required=True,
        choices=_SCOPES,
        help="what it may do; repeatable",
    )
    create.add_argument("--sketches", metavar="PATTERN", help="the names it may touch, as page-*; default: all")
    command(actions, "list", "list the keys, revoked ones too", _list)
    revoke = command(actions, "revoke", "refuse a key from now on", _revoke)
    revoke.add_argument("id", help="from the list")


def _create(api: Api, options: Namespace) -> None:
    key = api.post(at("keys"), given(options, "name", "scopes", "sketches"))
    show(options, key, lambda: facts({**_told(key), "secret, shown only now": key["secret"]}))


def _list(api: Api, options: Namespace) -> None:
    page = api.whole(at("keys"))
    rows = [_told(key) for key in page["items"]]
    show(options, page, lambda: table([*rows[0]] if rows else [], [[*row.values()] for row in rows], empty="No keys."))


def _revoke(api: Api, options: Namespace) -> None:
    api.delete(at("keys", options.id))
    done(options, f"The key {options.id} is refused from now on.")


def _told(key: dict[str, Any]) -> dict[str, object]:
    made, revoked = moment(key["created_at"]), moment(key["revoked_at"])
    return {
        "id": key["id"],
        "name": key["name"],
        "scopes": key["scopes"],
        "sketches": key["sketches"],
        "created": made,
        "revoked": revoked,
    }
