"""What the commands share: a parser for each, the server and key they talk with, a document or words as the result."""

import argparse
import json
import os
import secrets
from collections.abc import Callable
from typing import Any

from app.client.connection import DEFAULT_URL, Api
from app.client.terminal import out

Run = Callable[[Api, argparse.Namespace], None]
Group = Any  # argparse does not export the type of add_subparsers()

SKETCH = "name of the sketch"
LEDGER = "name of the ledger"


def group(commands: Group, name: str, words: str) -> Group:
    parser = commands.add_parser(name, help=words, description=_sentence(words))
    return parser.add_subparsers(required=True, metavar="action")


def command(commands: Group, name: str, words: str, run: Run, *, more: str = "") -> argparse.ArgumentParser:
    description = " ".join((_sentence(words), more)).strip()
    parser: argparse.ArgumentParser = commands.add_parser(name, help=words, description=description)
    parser.add_argument("--url", help=f"the server; default: DISCREET_URL or {DEFAULT_URL}")
    parser.add_argument("--key", help="an API key; default: DISCREET_KEY, which other users of the machine do not see")
    parser.add_argument("--json", action="store_true", help="print the server's own document")
    parser.set_defaults(run=lambda options: _with_api(run, options))
    return parser


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:] + "."


def _with_api(run: Run, options: argparse.Namespace) -> None:
    url = options.url or os.environ.get("DISCREET_URL", "").strip() or DEFAULT_URL
    key = options.key or os.environ.get("DISCREET_KEY", "").strip() or None
    api = Api(url.rstrip("/"), key)
    try:
        run(api, options)
    finally:
        api.close()


def show(options: argparse.Namespace, document: Any, words: Callable[[], str]) -> None:
    out(_written(document) if options.json else words())


def _written(document: Any) -> str:
    """As JSON that is safe to show: what would move the cursor is escaped, which leaves the document the same."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    return "".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text)


def done(options: argparse.Namespace, words: str) -> None:
    """After what the server answers without a document."""
    if not options.json:
        out(words)


def given(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Those members of the request that the command names; the server knows the rest."""
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def add_terms(parser: argparse.ArgumentParser) -> None:
    """What a release asks for. Amounts stay text: they are charged exactly as written."""
    parser.add_argument("--epsilon", required=True, help="for example 0.5")
    parser.add_argument("--delta", required=True, help="for example 1e-6")
    parser.add_argument("--beta", help="error bounds hold with probability 1 - beta; default: 0.05")
    parser.add_argument("--expected-events", type=int, metavar="N", help="for the error bound; not the true number")


TERMS = ("epsilon", "delta", "beta", "expected_events")


def new_request_key() -> str:
    return secrets.token_hex(8)
