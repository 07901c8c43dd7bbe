"""Attack every case and say what was shown: the least ε and the least δ that the releases are compatible with.

All bounds of one audit hold together, except with probability `RISK`. So a correct service fails an audit with
probability at most `RISK`, whatever the number of its cases.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from app.core.noise.samplers import Noise
from tests.audit.case import Case
from tests.audit.distinguishing import INTERVALS, Claim, Finding, findings
from tests.audit.drawing import Source, outputs

RISK = 1e-5


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the best events show about one case."""

    case: Case
    findings: tuple[Finding, ...]

    @property
    def epsilon(self) -> float:
        """ε is at least this, at the charged δ."""
        return max(finding.epsilon for finding in self.findings)

    @property
    def delta(self) -> float:
        """δ is at least this, at the charged ε."""
        return max(finding.delta for finding in self.findings)

    @property
    def share(self) -> float:
        """How much of the claim was shown to be needed, of ε or of δ."""
        cost = self.case.cost
        return max(self.epsilon / float(cost.epsilon), self.delta / float(cost.delta) if cost.delta else 0.0)

    @property
    def broken(self) -> bool:
        return any(finding.passes_the_claim for finding in self.findings)


def audit(cases: Sequence[Case], source: Source) -> Iterator[Verdict]:
    risk = RISK / (INTERVALS * len(cases))
    return (attacked(case, source.for_a_case(), risk) for case in cases)


def attacked(case: Case, noise: Noise, risk: float) -> Verdict:
    """Each of the `INTERVALS` bounds is wrong with probability at most `risk`."""
    release, keys = case.release(), case.keys()
    longer, shorter = (outputs(partial(release, sketch), keys, case.draws, noise) for sketch in case.pair)
    claim = Claim(float(case.cost.epsilon), float(case.cost.delta))
    return Verdict(case, tuple(findings(longer, shorter, claim, risk)))
