"""Load a server for ten minutes on each database while its workers are killed, and check what it promised.

`make soak`, or `python -m tests.soak --seconds 600 --database sqlite`. The exit status is 1 if a claim does not hold.
"""

import argparse
import sys

from tests.soak import databases, summary
from tests.soak.killing import WORKERS
from tests.soak.soak import CLIENTS, soak

_KILL_EVERY = 20.0


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--database", choices=databases.NAMES, action="append", help="default: both in turn")
    options = parser.parse_args()
    faults = 0
    for name in options.database or databases.NAMES:
        say(f"{name}: {CLIENTS} clients, {WORKERS} workers, one killed every {_KILL_EVERY:.0f} s")
        with databases.new(name) as url:
            outcome = soak(url, seconds=options.seconds, kill_every=_KILL_EVERY)
        for line in summary.lines(outcome):
            say(line)
        faults += len(outcome.faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
