"""What ends a command early: a sentence for people and an exit status."""

REFUSED, MISUSED = 1, 2


class Failure(Exception):
    status = REFUSED


class Misuse(Failure):
    """The command itself is wrong; nothing was asked of the server."""

    status = MISUSED


class Unreachable(Failure):
    """The server did not answer. What was asked may have happened."""
