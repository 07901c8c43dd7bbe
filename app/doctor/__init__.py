"""`discreet doctor`: is this installation sound? Looks at everything a release rests on, changes nothing, and says for
each thing what to do.

A finding has the names of settings, files, tables, sketches, ledgers and snapshots, and numbers about the machine. It
never has a secret, a key, an event or anything counted from them.
"""

import sys

from app.doctor.database import database_findings
from app.doctor.finding import Finding
from app.doctor.machine import machine_findings
from app.settings import Settings


def run(settings: Settings) -> int:
    """Print what was found; 1 where there is a problem, else 0."""
    findings = examine(settings)
    sys.stdout.writelines(f"{finding}\n" for finding in findings)
    return int(any(finding.level == "problem" for finding in findings))


def examine(settings: Settings) -> list[Finding]:
    """All that can be said; where the database does not answer, all but what it would have to say."""
    return [*machine_findings(settings), *database_findings(settings)]
