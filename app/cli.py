"""The command line. The commands here serve or look after a database; those of `client` ask a server."""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from app import __version__
from app.client.commands import advise, api_keys, demo, ingest, ledgers, releases, sketches
from app.client.failures import Failure
from app.client.terminal.output import clean_lines, write_note

if TYPE_CHECKING:
    from app.settings import Settings

_EPILOG = """\
Commands that ask a server find it by DISCREET_URL and an API key in
DISCREET_KEY, or by --url and --key. They print tables, and with --json the
server's documents. Exit status: 0; 1 if refused or failed; 2 if misused.
"""


def main(arguments: list[str] | None = None) -> None:
    """Run the command that the arguments name, and exit with a status other than 0 if it fails."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except Failure as failure:
        write_note(clean_lines(f"discreet: {failure}"))
        sys.exit(failure.status)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # whoever read the result, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="discreet",
        description="Private histograms of event streams.",
        epilog=_EPILOG,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=18),
    )
    parser.add_argument("-V", "--version", action="version", version=f"discreet {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command", title="commands")
    demo.add(commands)
    _add_serving(commands)
    for asking_a_server in (advise, sketches, ingest, releases, ledgers, api_keys):
        asking_a_server.add(commands)
    return parser


def _add_serving(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    serve = commands.add_parser("serve", help="migrate the database and answer HTTP")
    serve.add_argument("--host", help="default: DISCREET_HOST or 127.0.0.1")
    serve.add_argument("--port", type=int, help="default: DISCREET_PORT or 8000")
    serve.add_argument("--workers", type=int, help="processes; default: DISCREET_WORKERS or 1")
    serve.set_defaults(run=_with_settings(_serve))

    migrate = commands.add_parser("migrate", help="bring the database schema up to date and stop")
    migrate.set_defaults(run=_with_settings(_migrate))

    ledger = commands.add_parser("ledger", help="check or write out the ledgers, straight from the database")
    actions = ledger.add_subparsers(required=True, metavar="action")
    verify = actions.add_parser("verify", help="check all entries and what they rest on; exit 1 and say what is wrong")
    verify.add_argument("--against", metavar="FILE", help="an earlier export, kept elsewhere")
    verify.set_defaults(run=_with_settings(_verify))
    export = actions.add_parser("export", help="write all entries as JSON lines")
    export.set_defaults(run=_with_settings(_export))

    doctor = commands.add_parser("doctor", help="look for what is wrong with this installation; exit 1 on a problem")
    doctor.set_defaults(run=_with_settings(_doctor))

    openapi = commands.add_parser("openapi", help="print the OpenAPI document")
    openapi.set_defaults(run=_with_settings(_openapi))


def _with_settings(
    run: Callable[["Settings", argparse.Namespace], None],
) -> Callable[[argparse.Namespace], None]:
    """Run a command that opens the database itself; what an operator can put right is said in words."""

    def ready(options: argparse.Namespace) -> None:
        from app.settings import Settings  # imported here, and so on below: commands that ask a server start fast

        os.umask(0o077)  # the database holds true counts: no other user may read its files
        try:
            run(Settings.from_environment(os.environ), options)
        except Exception as error:
            words = _in_words(error)
            if words is None:
                raise
            sys.exit(f"discreet: {words}")

    return ready


def _in_words(error: Exception) -> str | None:
    """What an operator has to change; None if the error is a fault in our code."""
    from sqlalchemy.exc import DBAPIError

    from app.refusals import Unavailable
    from app.settings import BadSetting
    from app.store.migrate import NewerSchema, OlderSchema

    match error:
        case NewerSchema():
            return "a newer version has migrated the database; run that version"
        case OlderSchema():
            return "the database is empty or of an earlier version; run: discreet migrate"
        case BadSetting():
            return str(error)
        case BrokenPipeError():
            return None
        case Unavailable() | OSError() | DBAPIError(statement=None):  # the last: the driver cannot read the URL
            return "the database cannot be reached; check DISCREET_DATABASE_URL and that it runs"
    return None


def _serve(settings: "Settings", options: argparse.Namespace) -> None:
    import uvicorn

    from app import logs
    from app.main import uvicorn_options

    given = {name: value for name in ("host", "port", "workers") if (value := getattr(options, name)) is not None}
    settings = replace(settings, **given)
    logs.configure(settings.log_level, settings.log_format)
    _prepare(settings)
    print(f"Discreet {__version__}: http://{settings.host}:{settings.port}", flush=True)
    several = settings.workers > 1
    with tempfile.TemporaryDirectory(prefix="discreet-metrics-") if several else nullcontext() as shared:
        if shared:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = shared
        uvicorn.run("app.main:serving", **uvicorn_options(settings))


def _prepare(settings: "Settings") -> None:
    """Migrate the schema and make the first API key. Safe when several replicas start together."""
    from app.main import build_context
    from app.store.migrate import migrate
    from app.usecases.manage_api_keys import create_first_key

    context = build_context(settings)
    migrate(context.database)
    first = create_first_key(context)
    context.database.close()
    if first is not None:
        print(f"Admin key, shown only now: {first.secret}", flush=True)


def _migrate(settings: "Settings", _options: argparse.Namespace) -> None:
    from app.store.database import Database
    from app.store.migrate import migrate

    database = Database(settings.database_url)
    migrate(database)
    database.close()
    print("The database schema is up to date.")


def _verify(settings: "Settings", options: argparse.Namespace) -> None:
    from app.main import build_context
    from app.usecases.audit_ledger import verify_ledgers

    exported = _read_export(options.against) if options.against else ()
    context = build_context(settings)
    faults = verify_ledgers(context, exported)
    context.database.close()
    if faults:
        sys.exit("\n".join(faults))
    print("The ledgers are intact.")


def _read_export(path: str) -> list[str]:
    """The lines of an earlier export. Exits if it is empty or cut off: then an old database would pass."""
    try:
        lines = [line for line in Path(path).read_text().splitlines() if line.strip()]
        if lines and all(json.loads(line).keys() >= {"ledger", "sequence", "hash"} for line in lines):
            return lines
    except (OSError, ValueError, AttributeError):
        pass
    sys.exit(f"discreet: {path} is not an export of ledgers, or not a whole one")


def _export(settings: "Settings", _options: argparse.Namespace) -> None:
    from app.main import build_context
    from app.usecases.audit_ledger import export_ledgers

    context = build_context(settings)
    for line in export_ledgers(context):
        print(line)
    context.database.close()


def _doctor(settings: "Settings", _options: argparse.Namespace) -> None:
    from app.doctor import run

    sys.exit(run(settings))


def _openapi(settings: "Settings", _options: argparse.Namespace) -> None:
    from app.main import build_context, create_app

    with tempfile.TemporaryDirectory() as nowhere:  # the document needs no database, but an app must have one
        unused = replace(settings, database_url=f"sqlite:///{nowhere}/unused.db")
        print(json.dumps(create_app(unused, build_context(unused)).openapi(), indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
