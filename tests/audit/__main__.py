"""Attack the service's own releases and print how much of each privacy claim can be shown to be needed.

`make audit`. Then the same attack on variants of the service, each broken by one mistake: it must find them out.
The exit status is 1 if a bound passes its claim, which a correct service brings about with probability at most
`audit.RISK`, or if a mistake goes unnoticed.
"""

import sys
import time

from tests.audit.audit import RISK, Verdict, audit
from tests.audit.cases import every_case
from tests.audit.drawing import Source
from tests.audit.mistakes import MISTAKES

_ROW = "{:<16} {:<36} {:>8} {:>4} {:>7} {:>7} {:>7} {:>6}  {}\n"
_MISTAKE = "{:<66} {:>4} {:>7} {:>7} {:>7}  {}\n"

_LEGEND = "ε ≥ is shown at the charged δ, δ ≥ at the charged ε; share: of ε or of δ, whichever is more."


def say(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


def row(verdict: Verdict) -> str:
    case = verdict.case
    claimed = case.cost.as_strings()
    shown = (f"{verdict.epsilon:.3f}", f"{verdict.delta:.4f}" if case.cost.delta else "")
    return _ROW.format(
        case.mechanism,
        case.neighbours,
        f"{case.draws:,}",
        claimed["epsilon"],
        claimed["delta"],
        *shown,
        f"{verdict.share:.0%}",
        "BROKEN" if verdict.broken else "holds",
    )


def main() -> int:
    started = time.monotonic()
    say(f"All bounds hold together with confidence {1 - RISK:.3%}.\n\n")
    say(_ROW.format("mechanism", "neighbours", "releases", "ε", "δ", "ε ≥", "δ ≥", "share", "claim"))
    broken = 0
    for verdict in audit(every_case(), Source()):
        say(row(verdict))
        broken += verdict.broken
    say(f"\n{_LEGEND} {broken} claims broken.\n\n")
    missed = look_for_mistakes()
    say(f"\n{missed} mistakes missed. {time.monotonic() - started:.0f} seconds in all.\n")
    return 1 if broken or missed else 0


def look_for_mistakes() -> int:
    """How many deliberate mistakes the attack does not notice."""
    say(_MISTAKE.format("deliberate mistake", "ε", "δ", "ε ≥", "δ ≥", ""))
    missed = 0
    for mistake in MISTAKES:
        (verdict,) = audit([mistake.case()], Source(mistake.noise))
        claimed = verdict.case.cost.as_strings()
        shown = (f"{verdict.epsilon:.3f}", f"{verdict.delta:.4f}")
        found = "found out" if verdict.broken else "MISSED"
        say(_MISTAKE.format(mistake.name, claimed["epsilon"], claimed["delta"], *shown, found))
        missed += not verdict.broken
    return missed


if __name__ == "__main__":
    sys.exit(main())
