"""What requests are refused for besides mathematics: the caller, a name, an idempotency key, the database, HTTP.

Every layer but `core` raises these. Which status and which stable slug each has says one table: `PROBLEMS` in
`api/errors.py`. None depends on the counters of a sketch.
"""

from app.core.errors import Refusal


class Unauthenticated(Refusal):
    title = "No valid API key"


class Forbidden(Refusal):
    title = "The key does not allow this"


class UnknownSketch(Refusal):
    title = "No such sketch"


class UnknownLedger(Refusal):
    title = "No such ledger"


class UnknownSnapshot(Refusal):
    title = "No such snapshot"


class UnknownApiKey(Refusal):
    title = "No such API key"


class NoSnapshot(Refusal):
    title = "Nothing has been released yet"


class Conflict(Refusal):
    title = "The name is taken by something different"


class Closed(Refusal):
    title = "The sketch is closed"


class WrongUserKey(Refusal):
    title = "The server has another user key"


class IdempotencyKeyReused(Refusal):
    title = "The idempotency key was used for another request"


class UnsupportedMediaType(Refusal):
    title = "The content type is not supported"


class NotAcceptable(Refusal):
    title = "None of the accepted representations exists"


class BodyTooLarge(Refusal):
    title = "The request body is too large"


class BodyTimeout(Refusal):
    title = "The request body did not arrive in time"


class TooManyRequests(Refusal):
    title = "Too many requests in a short time"

    def __init__(self, detail: str, seconds: int = 1) -> None:
        super().__init__(detail)
        self.seconds = seconds  # until the next is welcome


class Overloaded(Refusal):
    title = "Too much is going on at once"


class Unavailable(Refusal):
    title = "The database cannot answer now"


class ChangedRules(Unavailable):
    """A batch was read by rules that the sketch no longer has: read it again."""
