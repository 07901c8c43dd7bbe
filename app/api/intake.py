"""What the route of events does with a request: admit its body, read it by the sketch's rules, have it counted."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from app.api.decoding import decode_events, decode_users, scan_events
from app.core.errors import BadBatch
from app.core.kernel import Batch
from app.core.people import Rules
from app.refusals import Unavailable
from app.server.admission import Admission, Admitted
from app.server.body import Body, CutOff
from app.server.turns import Turns
from app.usecases.access import Principal
from app.usecases.context import Context
from app.usecases.ingest.people import rules_of
from app.usecases.ingest.queue import Queues
from app.usecases.ingest.submission import ChangedRules, Submission
from app.usecases.recent import Recent

# The event loop must never wait, so what takes long to decode is handed to a thread. But to hand it over and back takes
# longer than a scanner does for a batch of common size.
_SCANNED_AT_ONCE_BYTES = 256 * 1024
_READ_AT_ONCE_BYTES = 16 * 1024
DECODED_AT_ONCE = 2  # of those in threads
_MOST_KNOWN = 10_000


class Upload(NamedTuple):
    """A body that is to come, with what the head of its request says of it."""

    body: Body
    content_type: str
    encoding: str
    intake: "Intake"  # which takes it in


class _Sent(NamedTuple):
    """One request for events, as it was received."""

    caller: Principal
    sketch: str
    idempotency_key: str | None
    content_type: str
    encoding: str
    content: bytes


class Intake:
    """Takes batches in. One for the app; for the event loop's thread alone."""

    def __init__(self, context: Context, admission: Admission, max_body_bytes: int) -> None:
        self.context = context
        self.admission = admission
        self.max_body_bytes = max_body_bytes
        self.queues = Queues(context)
        self.turns = Turns(DECODED_AT_ONCE)
        self._known_rules: Recent[str, Rules] = Recent(_MOST_KNOWN)  # by sketch

    async def count(self, caller: Principal, sketch: str, upload: Upload, idempotency_key: str | None) -> int:
        """Count a batch; how many events, or people, it had. Returns after the commit."""
        if self._known_rules.find(sketch) is None:
            await self._learn_rules(sketch)  # a sketch that is not there needs no body
        with self.admission.enter() as admitted:
            try:
                content = await upload.body.read(self.max_body_bytes, admitted.take)
            except CutOff:
                raise BadBatch("The body has another length than Content-Length declares.") from None
            sent = _Sent(caller, sketch, idempotency_key, upload.content_type, upload.encoding, content)
            with suppress(ChangedRules):
                return await self._count(sent, admitted)
            self._known_rules.forget(sketch)  # what was remembered is of another sketch of that name
            try:
                return await self._count(sent, admitted)
            except ChangedRules as again:
                raise Unavailable(str(again)) from None

    async def _count(self, sent: _Sent, admitted: Admitted) -> int:
        """Read the body by the sketch's rules, and count it. It has its place in the sketch's queue from now on,
        however long it takes to decode."""
        with self.queues.enter(sent.sketch) as place:
            rules = self._known_rules.find(sent.sketch) or await self._learn_rules(sent.sketch)
            # On the event loop, unless there is more to do than to scan: to take fingerprints, or to check sets
            is_just_scanned = rules.unit == "event" and rules.fingerprints is None
            scanned = is_just_scanned and len(sent.content) <= _SCANNED_AT_ONCE_BYTES
            body = sent.content_type, sent.encoding, sent.content
            batch = scan_events(*body, max_items=self.context.max_items) if scanned else None
            decode = partial(self._submission, rules, sent, admitted, batch, scanner_gave_up=scanned)
            # What is decompressed, or read by a library that is slow to import, is handed to a thread however short.
            grows = sent.encoding or "apache" in sent.content_type.lower()
            small = len(sent.content) <= _READ_AT_ONCE_BYTES and not grows
            at_once = batch is not None or small
            submission = decode() if at_once else await self.turns.run(sent.caller.api_key_id, decode)
            admitted.keep(max(len(sent.content), submission.batch.nbytes))
            await place.count(submission)
            return submission.batch.events

    async def _learn_rules(self, sketch: str) -> Rules:
        """Read a sketch's rules, and remember them. The transaction that counts checks that the sketch has them."""
        rules = await asyncio.to_thread(rules_of, self.context, sketch)  # not in the pool of other routes
        self._known_rules.put(sketch, rules)
        return rules

    def _submission(
        self, rules: Rules, sent: _Sent, admitted: Admitted, batch: Batch | None, *, scanner_gave_up: bool
    ) -> Submission:
        """What the request submits. The body is decoded where no scanner has made a batch of it before."""
        if batch is None:
            decode: Callable[..., Batch]
            if rules.unit == "user":
                decode = partial(decode_users, most_keys=rules.max_contributions)
            else:
                decode = partial(decode_events, scanner_gave_up=scanner_gave_up)
            batch = decode(
                *(sent.content_type, sent.encoding, sent.content),
                max_items=self.context.max_items,
                max_bytes=self.max_body_bytes,
                admit=admitted.grow,
            )
        claim = None
        if sent.idempotency_key is not None:
            asked = b"\0".join((sent.content_type.encode(), sent.encoding.encode(), sent.content))
            claim = sent.caller.claim("events", sent.sketch, sent.idempotency_key, asked)
        return Submission(batch, claim, sent.caller.api_key_id, rules.people_in(batch), rules)

    def close(self) -> None:
        """Stop the threads, after the last request was answered."""
        self.turns.close()
        self.queues.close()
