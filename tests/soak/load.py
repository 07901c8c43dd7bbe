"""A client: one request after the other, of all kinds, for as long as the load lasts."""

import itertools
import random
import threading

from tests.soak import merging, sending
from tests.soak.calls import Caller, Tally, Unexpected
from tests.soak.merging import Merger
from tests.soak.reading import Reader
from tests.soak.releasing import Arenas, Releaser
from tests.soak.sending import Sender
from tests.soak.truth import Truth

_WEIGHTS = (60, 28, 10, 2)  # of sending, reading, releasing and merging; a merge is six requests or more


class Scene:
    """What all clients share."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.truth = Truth()
        self.rounds = itertools.count()  # of merges
        self.stopped = threading.Event()
        caller = Caller(port, random.Random())
        sending.prepare(caller)
        merging.prepare(caller)
        self.arenas = Arenas(caller, self.truth)
        caller.close()


class Client(threading.Thread):
    def __init__(self, number: int, scene: Scene) -> None:
        super().__init__(daemon=True)
        choice = random.Random(number)
        caller = Caller(scene.port, choice)
        sender = Sender(f"client-{number}", caller, scene.truth, choice)
        self._operations = (
            sender.send,
            Reader(scene.arenas, caller, scene.truth, choice).read,
            Releaser(scene.arenas, caller, scene.truth, choice).release,
            Merger(scene.rounds, sender, caller, scene.truth, choice).merge,
        )
        self._scene, self._caller, self._choice = scene, caller, choice

    @property
    def tally(self) -> Tally:
        return self._caller.tally

    def run(self) -> None:
        """What was begun is finished: at the end nothing is in flight, and everything sent is known for certain."""
        while not self._scene.stopped.is_set():
            (operation,) = self._choice.choices(self._operations, _WEIGHTS)
            try:
                operation()
            except Unexpected:  # the tally has it
                pass
            except Exception as error:  # a client that fell silent must not pass for one that saw nothing
                self._caller.fault(f"a client failed: {error!r}")
        self._caller.close()
