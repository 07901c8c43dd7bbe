"""The story of ingest: count what waits for one sketch, each submission exactly once or not at all."""

from collections.abc import Sequence

from app.core.errors import Refusal
from app.usecases.context import Context
from app.usecases.ingest.fast_path import commit_if_unchanged, fold_ahead
from app.usecases.ingest.submission import Outcome, Queue, Submission
from app.usecases.ingest.transaction import Group, RevokedMeanwhile, count_in_transaction


class _Nobody:
    def take(self) -> Sequence[Submission]:
        return ()


def count_submissions(
    context: Context, name: str, submissions: Sequence[Submission], queue: Queue | None = None
) -> list[Outcome]:
    """Count these submissions in this order, and then those that joined from the queue while a lock was waited for.

    Answers what became of each, in the same order; what is answered as counted is committed. Each is counted as a
    whole or not at all, and one that fails does not fail its neighbours.
    """
    group = Group(submissions, queue or _Nobody())
    try:
        sketch = fold_ahead(context.open_sketches.take(name), submissions)
        if sketch is not None and commit_if_unchanged(context, name, sketch, submissions):
            return [None] * len(submissions)
        return count_in_transaction(context, name, sketch, group)
    except RevokedMeanwhile:
        return count_submissions(context, name, list(group))
    except Refusal as refusal:  # of the whole group: no such sketch, or no database
        return [refusal] * len(group)
    except Exception as fault:
        if len(group) == 1:
            return [fault]
    # One submission is at fault: each is counted alone, to find out which.
    return [outcome for one in group for outcome in count_submissions(context, name, [one])]
