"""discreet keys create | list | revoke."""

from argparse import Namespace
from typing import Any

from app.client.commands.common import Group, add_command, add_group, confirm, given, show
from app.client.connection import Api, at
from app.client.terminal.tables import facts, moment, table

_SCOPES = ("ingest", "read", "release", "admin")


def add(commands: Group) -> None:
    """Add `keys` with its actions."""
    actions = add_group(commands, "keys", "make, list and revoke API keys")
    create = add_command(actions, "create", "make a key and show its secret, this once", _create)
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
    add_command(actions, "list", "list the keys, revoked ones too", _list)
    revoke = add_command(actions, "revoke", "refuse a key from now on", _revoke)
    revoke.add_argument("id", help="from the list")


def _create(api: Api, options: Namespace) -> None:
    api_key = api.post(at("keys"), given(options, "name", "scopes", "sketches"))
    show(options, api_key, lambda: facts({**_members(api_key), "secret, shown only now": api_key["secret"]}))


def _list(api: Api, options: Namespace) -> None:
    page = api.whole(at("keys"))
    rows = [_members(api_key) for api_key in page["items"]]
    show(options, page, lambda: table([*rows[0]] if rows else [], [[*row.values()] for row in rows], empty="No keys."))


def _revoke(api: Api, options: Namespace) -> None:
    api.delete(at("keys", options.id))
    confirm(options, f"The key {options.id} is refused from now on.")


def _members(api_key: dict[str, Any]) -> dict[str, object]:
    return {
        "id": api_key["id"],
        "name": api_key["name"],
        "scopes": api_key["scopes"],
        "sketches": api_key["sketches"],
        "created": moment(api_key["created_at"]),
        "revoked": moment(api_key["revoked_at"]),
    }
