"""Merge, release and post at random from a process of its own, and print what came of it as one JSON line.

python -m tests.usecases.racing DATABASE_URL SEED OPERATIONS
"""

import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from decimal import Decimal

from app.core.errors import BudgetExhausted, Refusal
from app.core.kernel import batch_of
from app.core.ledger.budget import Cost
from app.main import build_context
from app.settings import Settings
from app.usecases.context import Context
from app.usecases.ingest.submission import Submission
from app.usecases.merge_sketches import merge_sketches
from app.usecases.plan_release import Terms
from app.usecases.release_snapshot import release_snapshot, release_together
from tests.counting import count_one

SKETCHES = [f"sketch-{number:02}" for number in range(12)]
BASES = SKETCHES[:8]  # each with a ledger of its own; the others are targets of merges
COST = Cost.charged(epsilon="0.05", delta="1e-9")


def _release(context: Context, choice: random.Random) -> None:
    terms = Terms(cost=COST, beta=Decimal("0.05"))
    release_snapshot(context, choice.choice(SKETCHES), terms, "auto", None)


def _release_together(context: Context, choice: random.Random) -> None:
    terms = Terms(cost=COST, beta=Decimal("0.05"))
    release_together(context, choice.sample(SKETCHES, 2), "compact", terms, "auto", None)


def _merge(context: Context, choice: random.Random) -> None:
    target = choice.choice(SKETCHES[8:])
    source = choice.choice([name for name in SKETCHES if name != target])
    merge_sketches(context, target, [source], "compact")


def _post(context: Context, choice: random.Random) -> None:
    count_one(context, choice.choice(BASES), Submission(batch_of([("a", 1)])))


def main(url: str, seed: str, operations: str) -> None:
    context = build_context(Settings(database_url=url))
    choice = random.Random(int(seed))
    outcomes: Counter[str] = Counter()
    exhausted: set[str] = set()
    verbs: list[Callable[[Context, random.Random], None]] = [_release, _release_together, _merge, _post]
    for _ in range(int(operations)):
        verb = choice.choice(verbs)
        try:
            verb(context, choice)
            outcomes[verb.__name__.strip("_")] += 1
        except BudgetExhausted as refusal:
            outcomes["exhausted"] += 1
            exhausted |= set(refusal.blocking)
        except Refusal as refusal:
            outcomes[type(refusal).__name__] += 1
    print(json.dumps({"outcomes": outcomes, "exhausted": sorted(exhausted)}))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
