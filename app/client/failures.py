"""What ends a command early: a sentence for people and an exit status."""

REFUSED, MISUSED = 1, 2


class Failure(Exception):
    """Ends the command: its text is shown to people, `status` is the exit status."""

    status = REFUSED


class Misuse(Failure):
    """The command is wrong as it was given; nothing was asked of the server."""

    status = MISUSED


class Unreachable(Failure):
    """The server did not answer, so it is not known whether what was asked has happened."""
