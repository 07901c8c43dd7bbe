"""What the route of events does with a request: admit its body, read it by the sketch's rules, have it counted."""

from contextlib import suppress
from functools import partial
from typing import NamedTuple

from anyio.to_thread import run_sync

from app.api.decoding import decode_events, decode_users, may_grow, scan_events
from app.core.errors import BadBatch
from app.core.kernel import Batch
from app.core.people import Rules
from app.refusals import ChangedRules, Unavailable
from app.server.admission import Admission, Admitted
from app.server.body import Body, CutOff
from app.server.turns import Turns
from app.usecases.access import Principal
from app.usecases.context import Context
from app.usecases.ingest.people import rules_of
from app.usecases.ingest.queue import Queues
from app.usecases.ingest.submission import Submission
from app.usecases.recent import Recent

# The event loop must never wait, so what takes long to decode is handed to a thread. But to hand it over and back takes
# longer than a scanner does for a batch of common size.
_SCANNED_AT_ONCE_BYTES = 256 * 1024
_READ_AT_ONCE_BYTES = 16 * 1024
DECODED_AT_ONCE = 2  # of those in threads
_MOST_KNOWN = 10_000


class Sent(NamedTuple):
    """The head of one request for events: who sends what kind of body to which sketch."""

    caller: Principal
    sketch: str
    idempotency_key: str | None
    content_type: str
    encoding: str


class Intake:
    """Takes batches in. One for the app; for the event loop's thread alone."""

    def __init__(self, context: Context, admission: Admission, max_body_bytes: int) -> None:
        self.context = context
        self.admission = admission
        self.max_body_bytes = max_body_bytes
        self.queues = Queues(context)
        self.turns = Turns(DECODED_AT_ONCE)
        self._known_rules: Recent[str, Rules] = Recent(_MOST_KNOWN)  # by sketch

    async def count(self, sent: Sent, body: Body) -> int:
        """Count a batch; how many items it had. Returns after the commit."""
        await self._rules(sent.sketch)  # a sketch that is not there needs no body
        with self.admission.enter() as admitted:
            try:
                content = await body.read(self.max_body_bytes, admitted.take)
            except CutOff:
                raise BadBatch("The body has another length than Content-Length declares.") from None
            with suppress(ChangedRules):
                return await self._count(sent, content, admitted)
            self._known_rules.forget(sent.sketch)  # what was remembered is of another sketch of that name
            try:
                return await self._count(sent, content, admitted)
            except ChangedRules as again:
                raise Unavailable(str(again)) from None

    async def _count(self, sent: Sent, content: bytes, admitted: Admitted) -> int:
        """Read the body by the sketch's rules, and count it. It has its place in the sketch's queue from now on,
        however long it takes to decode."""
        with self.queues.enter(sent.sketch) as place:
            rules = await self._rules(sent.sketch)
            batch = self._scanned(rules, sent, content)
            decode = partial(self._submission, rules, sent, content, batch, admitted)
            small = len(content) <= _READ_AT_ONCE_BYTES and not may_grow(sent.content_type, sent.encoding)
            at_once = batch is not None or small
            submission = decode() if at_once else await self.turns.run(sent.caller.key_id, decode)
            admitted.keep(max(len(content), submission.batch.nbytes))
            await place.count(submission)
            return submission.batch.events

    async def _rules(self, sketch: str) -> Rules:
        """Those of the sketch. What is remembered of them is checked in the transaction that counts."""
        rules = self._known_rules.find(sketch)
        if rules is None:
            rules = await run_sync(rules_of, self.context, sketch)
            self._known_rules.put(sketch, rules)
        return rules

    def _scanned(self, rules: Rules, sent: Sent, content: bytes) -> Batch | None:
        """What a scanner makes of the body on the event loop. Not where there is more to do than to scan: to take
        fingerprints, or to check sets."""
        if len(content) > _SCANNED_AT_ONCE_BYTES or rules.fingerprints or rules.unit == "user":
            return None
        return scan_events(sent.content_type, sent.encoding, content, max_items=self.context.max_items)

    def _submission(
        self, rules: Rules, sent: Sent, content: bytes, batch: Batch | None, admitted: Admitted
    ) -> Submission:
        """What the request submits, decoded where no scanner did."""
        if batch is None:
            decode = partial(decode_users, most_keys=rules.max_contributions) if rules.unit == "user" else decode_events
            batch = decode(
                *(sent.content_type, sent.encoding, content),
                max_items=self.context.max_items,
                max_bytes=self.max_body_bytes,
                admit=admitted.grow,
            )
        claim = None
        if sent.idempotency_key is not None:
            asked = b"\0".join((sent.content_type.encode(), sent.encoding.encode(), content))
            claim = sent.caller.claim("events", sent.sketch, sent.idempotency_key, asked)
        return Submission(batch, claim, sent.caller.key_id, rules.people_in(batch), rules)

    def close(self) -> None:
        """Stop the threads, after the last request was answered."""
        self.turns.close()
        self.queues.close()
