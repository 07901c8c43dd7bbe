"""What requests are refused for besides mathematics: the caller, a name, an idempotency key, the database, HTTP.

Every layer but `core` raises these. Which status and which stable slug each has says one table: `PROBLEMS` in
`server/problems.py`. None depends on the counters of a sketch.
"""

from app.core.errors import Refusal


class Unauthenticated(Refusal):
    """The request has no API key, or one that is unknown or revoked."""

    title = "No valid API key"


class Forbidden(Refusal):
    """The API key is valid, but not for this operation or this name."""

    title = "The key does not allow this"


class UnknownSketch(Refusal):
    """No sketch has this name, or it was deleted."""

    title = "No such sketch"


class UnknownLedger(Refusal):
    """No ledger has this name."""

    title = "No such ledger"


class UnknownSnapshot(Refusal):
    """No snapshot has this id, or it is of a sketch that the caller may not touch."""

    title = "No such snapshot"


class UnknownApiKey(Refusal):
    """No API key has this id, or it is revoked already."""

    title = "No such API key"


class NoSnapshot(Refusal):
    """The sketch was never released, and reading never releases."""

    title = "Nothing has been released yet"


class Conflict(Refusal):
    """What was asked contradicts what exists, for example another sketch of the same name."""

    title = "The name is taken by something different"


class Closed(Refusal):
    """The sketch was closed, and takes no more data."""

    title = "The sketch is closed"


class WrongUserKey(Refusal):
    """People were counted under another user key than the one that the server has now."""

    title = "The server has another user key"


class IdempotencyKeyReused(Refusal):
    """A request has the idempotency key of an earlier one, but asks for something else."""

    title = "The idempotency key was used for another request"


class UnsupportedMediaType(Refusal):
    """The body is of a type or an encoding that the service does not read."""

    title = "The content type is not supported"


class NotAcceptable(Refusal):
    """The client accepts none of the formats in which a snapshot can be shown."""

    title = "None of the accepted representations exists"


class BodyTooLarge(Refusal):
    """The body has more bytes than its route takes."""

    title = "The request body is too large"


class BodyTimeout(Refusal):
    """The body was not complete within the time that it may take."""

    title = "The request body did not arrive in time"


class TooManyRequests(Refusal):
    """The API key, or the address, has to wait before it is listened to again."""

    title = "Too many requests in a short time"

    def __init__(self, detail: str, seconds: int = 1) -> None:
        super().__init__(detail)
        self.seconds = seconds  # until the next is welcome


class Overloaded(Refusal):
    """The process has no room for more of this at the moment. Nothing was done."""

    title = "Too much is going on at once"


class Unavailable(Refusal):
    """The database does not answer, or is busy. The one refusal after which a request may have taken effect."""

    title = "The database cannot answer now"
