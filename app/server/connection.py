"""One connection: where requests begin and end, and how long and how much a client may make the server wait.

uvicorn's protocol does the rest. What it leaves open is closed here:

- A request is whole or it is nothing: its declared body comes to the route to the last byte, or the route is told that
  the client is gone. Whoever asks for another protocol (`Upgrade`) is answered in HTTP/1.1, and keeps the body.
- Behind what cannot be read, nothing is read: the bytes of one request never become another.
- Requests are answered in the order in which they came, those that cannot be read too.
- The time for a head, its length, the rest of a body that was refused, and the time to read an answer are bounded.
"""

import asyncio
import logging

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from app.server import last_answers
from app.server.last_answers import HEAD_BYTES, LastAnswer
from app.server.room import make_room, most_connections
from app.server.transport import PatientTransport

log = logging.getLogger("discreet")

_HEAD_SECONDS = 30.0
_REST_BYTES = 128 * 1024 * 1024  # of a body that was answered before it had come
_NOTED = frozenset((b"expect", b"transfer-encoding"))
_WITH_BODY = frozenset((b"POST", b"PUT", b"PATCH"))


class Connection(HttpToolsProtocol):
    """For uvicorn's option `http`."""

    transport: PatientTransport  # type: ignore[assignment]  # has all of asyncio's that uvicorn uses
    cycle: RequestResponseCycle | None  # type: ignore[assignment]  # of the newest request
    waiting_since: float | None = None  # for a request; None while one is worked on
    _packets = 0  # bytes of those packets in which the head is that is being read
    _head = 0  # of these, what is the head's for certain; in a body, what came since its last byte
    _body_came = False  # in this packet
    _rest = 0  # bytes that were thrown away since the last head
    _refusal: LastAnswer | None = None  # to be said after all other answers; nothing is read any more
    _why = last_answers.MALFORMED  # what to say if the parser stops
    _last = False  # the server shuts down
    _giving_up: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(PatientTransport(transport, self.loop, self._leave))  # type: ignore[arg-type]
        most = most_connections()
        if len(self.connections) > most and not make_room(self.connections, 1 + most // 64):  # type: ignore[arg-type]
            _note(last_answers.NO_ROOM)
            transport.write(last_answers.NO_ROOM.answer)
            self.make_way()
            return
        self.waiting_since = self.loop.time()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.transport.forget()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.transport.watch_client()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.transport.stop_watching()

    def shutdown(self) -> None:
        """Called by the server when it ends."""
        self._last = True
        if self.cycle is None or self.cycle.response_complete:
            self.hang_up()
        else:
            self.cycle.keep_alive = False

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None or self.transport.leaving:
            self._throw_away(len(data))
            return
        self._unset_keepalive_if_required()
        cycle, scope = self.cycle, self.scope
        self._packets += len(data)
        self._body_came = False
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self._refuse(self._why)
        else:
            same = cycle is self.cycle and scope is self.scope
            self._look_at_progress(len(data) if same else 0)

    def _parse(self, data: bytes) -> None:
        """The parser stops behind a head that asks for another protocol, and takes what follows for that protocol. We
        speak no other, so it is given the same head without `Upgrade`, and then what follows, body first."""
        rest: bytes | memoryview = data
        while True:
            try:
                self.parser.feed_data(rest)
            except httptools.HttpParserUpgrade as stopped:
                rest = memoryview(rest)[stopped.args[0] :]
            else:
                return
            head = self._head_without_upgrade()
            self.parser = httptools.HttpRequestParser(self)
            self.parser.feed_data(head)

    def _head_without_upgrade(self) -> bytes:
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        if method == b"CONNECT":
            self._stop_parsing(last_answers.NO_TUNNEL)
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        lines += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        return b"\r\n".join((*lines, b"", b""))

    def _stop_parsing(self, why: LastAnswer) -> None:
        self._why = why
        raise httptools.HttpParserError

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note a header; refuse a request whose body is coded in a way that would hide its end."""
        name = name.lower()
        if name in _NOTED:
            if name == b"expect":
                self.expect_100_continue = value.strip().lower() == b"100-continue"
            elif value.strip().lower() != b"chunked":
                self._stop_parsing(last_answers.UNKNOWN_CODING)
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Hand the request to its route, unless its head is too large or its version unknown."""
        if self.parser.should_upgrade():
            return  # `_parse` goes on
        if self._packets > HEAD_BYTES:  # which may hold more than this head
            length = len(self.url) + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)
            if length > HEAD_BYTES:
                self._stop_parsing(last_answers.HEAD_TOO_LARGE)
        if self.parser.get_http_version() != "1.1":
            self._check_older()
        super().on_headers_complete()
        if self.cycle is not None and self.expect_100_continue:  # who is refused may keep the body: where would
            self.cycle.keep_alive = False  # the next request begin?
        self.headers = []  # what stands behind a chunked body is not a header
        self._rest = 0
        self.waiting_since = None

    def _check_older(self) -> None:
        version = self.parser.get_http_version()
        if version != "1.0":
            self._stop_parsing(last_answers.UNKNOWN_VERSION)
        self.expect_100_continue = False  # it was not known then
        names = {name for name, _ in self.headers}
        if b"transfer-encoding" in names:
            self._stop_parsing(last_answers.MALFORMED)
        if b"content-length" not in names and self.parser.get_method() in _WITH_BODY:
            self._stop_parsing(last_answers.NO_LENGTH)

    def on_body(self, body: bytes) -> None:
        """Hand a piece of the body to the route; throw it away where the request was answered before."""
        self._body_came = True
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self._rest += len(body)
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        """Tell the route that its body is whole."""
        cycle = self.cycle
        if cycle is None or self.parser.should_upgrade():
            return
        cycle.more_body = False
        cycle.message_event.set()
        if self.expect_100_continue and not self._last:
            cycle.keep_alive = self.parser.should_keep_alive()

    def on_response_complete(self) -> None:
        """Go on with the next request, or say why nothing more is read."""
        another = bool(self.pipeline)
        super().on_response_complete()
        if not another:
            self.waiting_since = self.loop.time()
            if self._refusal is not None and not self.transport.is_closing():
                self._say(self._refusal)

    def _look_at_progress(self, certain: int) -> None:
        """After each packet: is a head or the framing of a body too long, and how long may the rest of it take?

        `certain`: the bytes of the packet that are neither of an earlier request nor of its body.
        """
        cycle = self.cycle
        if cycle is None or cycle.scope is not self.scope:  # a head began, and its end has not come
            patient, growing = False, True
        else:
            patient, growing = not cycle.response_complete, cycle.more_body and not self._body_came
        self._head = self._head + certain if growing and certain else 0
        if not growing:
            self._packets = 0
        if self._head > HEAD_BYTES:
            self._refuse(last_answers.HEAD_TOO_LARGE)
        elif self._rest > _REST_BYTES:
            self.hang_up()
        elif not patient:
            self._wait()
        else:
            self._stop_waiting()

    def _refuse(self, refusal: LastAnswer) -> None:
        """Answer what cannot be read, after all that came before it was answered, and read nothing more."""
        _note(refusal)
        self._refusal = refusal
        cycle = self.cycle
        earlier = cycle is not None and not cycle.response_complete  # is there one to be answered first?
        if cycle is not None and cycle.more_body:  # it is the body of this one that cannot be read
            earlier = bool(self.pipeline)
            if earlier:
                self.pipeline.popleft()
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:  # two answers to one request would shift all others
                self._leave()
                return
        if not earlier:
            self._say(refusal)

    def _say(self, refusal: LastAnswer) -> None:
        self.transport.write(refusal.answer)
        self._leave()

    def _leave(self) -> None:
        """Close. While the client still sends, read on for a while: to close would reset the connection, and the client
        would lose the answer."""
        if self.transport.is_closing():
            return
        if not (self._refusal is not None or self.pipeline or (self.cycle is not None and self.cycle.more_body)):
            self.hang_up()
            return
        self.waiting_since = self.loop.time()
        self.flow.resume_reading()
        self._stop_waiting()
        self._wait()
        self.transport.end_writing()

    def make_way(self) -> None:
        """For a newcomer. Counted out at once, or the next one would find the place still taken."""
        self.connections.discard(self)
        self.hang_up()
        if self.flow.write_paused:  # the client does not read, so that to close would take long
            self.transport.abort()

    def hang_up(self) -> None:
        """Close the connection at once."""
        self.waiting_since = None
        self._stop_waiting()
        self.transport.hang_up()

    def _throw_away(self, received: int) -> None:
        self._rest += received
        if self._rest > _REST_BYTES:
            self.hang_up()

    def _wait(self) -> None:
        if self._giving_up is None and not self.transport.is_closing():
            self._giving_up = self.loop.call_later(_HEAD_SECONDS, self.hang_up)

    def _stop_waiting(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None


def _note(refusal: LastAnswer) -> None:
    log.info("refused", extra={"operation": "none", "status": refusal.status, "problem": refusal.slug})
