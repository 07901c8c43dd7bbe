"""One batch counted, for tests that are about something else."""

from app.usecases.context import Context
from app.usecases.ingest.count import count_submissions
from app.usecases.ingest.submission import Submission


def count_one(context: Context, name: str, submission: Submission) -> None:
    """Count one submission, or raise what it was refused for."""
    (outcome,) = count_submissions(context, name, [submission])
    if outcome is not None:
        raise outcome
