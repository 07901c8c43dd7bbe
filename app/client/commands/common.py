"""What the commands share: their parsers, the connection to a server, and results as documents or words."""

import argparse
import json
import os
from collections.abc import Callable
from typing import Any

from app.client.connection import DEFAULT_URL, Api
from app.client.terminal.output import write_line

Run = Callable[[Api, argparse.Namespace], None]
Group = Any  # argparse does not export the type of add_subparsers()

SKETCH = "name of the sketch"
LEDGER = "name of the ledger"


def add_group(commands: Group, name: str, words: str) -> Group:
    """Add a command that has actions below it, such as `keys create`; gives where to add them."""
    parser = commands.add_parser(name, help=words, description=_sentence(words))
    return parser.add_subparsers(required=True, metavar="action")


def add_command(commands: Group, name: str, words: str, run: Run, *, more: str = "") -> argparse.ArgumentParser:
    """Add a command that asks a server; gives its parser, for further options."""
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
    api = Api(url.rstrip("/"), options.key or os.environ.get("DISCREET_KEY", "").strip() or None)
    try:
        run(api, options)
    finally:
        api.close()


def show(options: argparse.Namespace, document: Any, words: Callable[[], str]) -> None:
    """Write the server's document if --json asks for it, else the words for people."""
    if not options.json:
        write_line(words())
        return
    text = json.dumps(document, indent=2, ensure_ascii=False)
    # Characters that would move the cursor are escaped, which leaves the document the same.
    write_line("".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text))


def confirm(options: argparse.Namespace, words: str) -> None:
    """Say that something was done for which the server answers no document; with --json, say nothing."""
    if not options.json:
        write_line(words)


def given(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The members of a request for which the command gave a value; for the others the server has defaults."""
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def add_terms(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what a release asks for. ε and δ stay text: they are charged exactly as written."""
    price = parser.add_mutually_exclusive_group(required=True)
    price.add_argument("--epsilon", help="for example 0.5")
    price.add_argument("--rho", help="instead, where every ledger that pays is zcdp: for example 0.005")
    parser.add_argument("--delta", required=True, help="for example 1e-6")
    parser.add_argument("--beta", help="error bounds hold with probability 1 - beta; default: 0.05")
    parser.add_argument(
        "--total", action="store_true", default=None, help="also how many events, or people, for 2 %% of the price"
    )


TERMS = ("epsilon", "rho", "delta", "beta", "total")
