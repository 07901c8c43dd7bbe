"""Other clients beside the load: one in Java, one with timeouts of milliseconds, and readers of a large histogram."""

import http.client
import itertools
import json
import random
import shutil
import subprocess
import threading
from collections import Counter
from pathlib import Path
from typing import Protocol

from tests.conftest import ADMIN_KEY
from tests.soak.calls import Call, Caller
from tests.soak.truth import Truth

_JAVA, _IMPATIENT, _LARGE = "java", "impatient", "large"
_BUDGET = {"epsilon": "1", "delta": "1e-5"}
_LONG_KEYS = 2000
_SECONDS = 60
_FINISH_SECONDS = 120


class Stranger(Protocol):
    faults: list[str]

    def start(self) -> None: ...

    def finish(self) -> None:
        """Once the load has stopped: note what was acknowledged."""
        ...


def strangers(port: int, truth: Truth, stopped: threading.Event) -> list[Stranger]:
    caller = Caller(port, random.Random())
    for name in (_JAVA, _IMPATIENT):
        caller.call(_put(name, 64))
    path = _release_large(caller, truth)
    caller.close()
    found: list[Stranger] = [Impatient(port, truth, stopped), *(LargeReader(port, path, stopped) for _ in range(4))]
    return [*found, JavaSender(port, truth)] if shutil.which("java") else found


def _put(name: str, k: int) -> Call:
    return Call.of("setup", "PUT", f"/v1/sketches/{name}", {"k": k, "budget": _BUDGET}, expected=("200", "201"))


def _release_large(caller: Caller, truth: Truth) -> str:
    """Keys of control characters, each of which takes six letters in JSON. Where the snapshot is."""
    caller.call(_put(_LARGE, 2 * _LONG_KEYS))
    keys = [f"{number:05}".ljust(500, "\x01") for number in range(_LONG_KEYS)]
    body = {"events": [{"key": key, "count": 1000} for key in keys]}
    caller.call(Call.of("setup", "POST", f"/v1/sketches/{_LARGE}/events", body, key="large"))
    truth.count(_LARGE, dict.fromkeys(keys, 1000))
    terms = {"epsilon": "0.9", "delta": "1e-6"}
    released = Call.of(
        "setup", "POST", f"/v1/sketches/{_LARGE}/snapshots", terms, key="large-release", expected=("201",)
    )
    document = caller.call(released).document
    truth.release("large-release", document)
    return f"/v1/snapshots/{document['id']}"


class _Thread(threading.Thread):
    def __init__(self, port: int, stopped: threading.Event) -> None:
        super().__init__(daemon=True)
        self.faults: list[str] = []
        self._port, self._stopped = port, stopped
        self._choice = random.Random()

    def _ask(self, method: str, path: str, body: bytes | None, seconds: float, **headers: str) -> tuple[int, bytes]:
        """OSError where the connection broke or the time is over."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=seconds)
        try:
            connection.request(method, path, body, {"Authorization": f"Bearer {ADMIN_KEY}", **headers})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except http.client.HTTPException as error:
            raise ConnectionError from error
        finally:
            connection.close()

    def finish(self) -> None:
        self.join(_FINISH_SECONDS)
        if self.is_alive():
            self.faults.append(f"{type(self).__name__} did not finish")


class Impatient(_Thread):
    """Gives up after milliseconds, and sends the same batch again until it is acknowledged."""

    def __init__(self, port: int, truth: Truth, stopped: threading.Event) -> None:
        super().__init__(port, stopped)
        self._truth = truth

    def run(self) -> None:
        for number in itertools.count():
            if self._stopped.is_set():
                return
            events = [f"page {self._choice.randrange(9)}" for _ in range(self._choice.choice((1, 50, 2000)))]
            self._send(json.dumps({"events": events}).encode(), f"impatient-{number}")
            self._truth.count(_IMPATIENT, Counter(events))

    def _send(self, body: bytes, key: str) -> None:
        for attempt in itertools.count():
            seconds = self._choice.choice((0.001, 0.003, 0.01)) if attempt < 5 else _SECONDS
            headers = {"Content-Type": "application/json", "Idempotency-Key": key}
            try:
                status, answer = self._ask("POST", f"/v1/sketches/{_IMPATIENT}/events", body, seconds, **headers)
            except OSError:
                continue
            if status == 200:
                return
            if status != 503:
                self.faults.append(f"an impatient sender was answered {status} {answer[:200]!r}")
                return


class LargeReader(_Thread):
    """Reads all of a large histogram, or its largest bar, or breaks off in the middle."""

    def __init__(self, port: int, path: str, stopped: threading.Event) -> None:
        super().__init__(port, stopped)
        self._path = path

    def run(self) -> None:
        whole = b""
        while not self._stopped.is_set():
            try:
                if self._choice.random() < 0.2:
                    self._break_off()
                    continue
                top = self._choice.random() < 0.5
                status, answer = self._ask("GET", self._path + "?top=1" * top, None, _SECONDS)
            except OSError:
                continue  # its worker was killed
            if status not in (200, 503):
                self.faults.append(f"a reader of a large histogram was answered {status}")
            elif status == 200 and not top:
                whole = whole or answer
                if answer != whole:
                    self.faults.append("a large histogram is not what it was")

    def _break_off(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_SECONDS)
        try:
            connection.request("GET", self._path, headers={"Authorization": f"Bearer {ADMIN_KEY}"})
            connection.getresponse().read(10_000)
        except http.client.HTTPException as error:
            raise ConnectionError from error
        finally:
            connection.close()


class JavaSender:
    """Java's own client with its defaults, in a process of its own."""

    def __init__(self, port: int, truth: Truth) -> None:
        self.faults: list[str] = []
        self._truth = truth
        self._command = [
            *("java", str(Path(__file__).with_name("Soak.java"))),
            *(f"http://127.0.0.1:{port}/v1/sketches/{_JAVA}/events", ADMIN_KEY),
        ]

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def finish(self) -> None:
        out, err = self._process.communicate("enough\n", timeout=_FINISH_SECONDS)
        lines = out.splitlines()
        self.faults += [f"Java's client: {line}" for line in lines if not line.isdecimal()]
        if self._process.returncode != 0 or not lines:
            self.faults.append(f"Java's client did not run: {err[-500:]}")
        self._truth.count(_JAVA, {"java": sum(int(line) for line in lines if line.isdecimal())})
