"""Mixed load on a server as an operator starts it, while its workers are killed one after the other."""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from app.store.database import Database
from tests.server import running
from tests.soak import checking
from tests.soak.calls import Tally
from tests.soak.killing import WORKERS, Killer
from tests.soak.load import Client, Scene
from tests.soak.strangers import strangers
from tests.soak.truth import Truth

CLIENTS = 32

_AFTER_A_KILL = 10.0  # seconds in which a client must have noticed
_FINISH_SECONDS = 300  # for what is in flight at the end


@dataclass
class Outcome:
    """What was seen; `faults` says which claims do not hold."""

    seconds: float
    truth: Truth
    tallies: list[Tally]
    kills: list[float]  # moments
    faults: list[str] = field(default_factory=list)

    @property
    def breaks(self) -> list[float]:
        return [moment for tally in self.tallies for moment in tally.breaks]


def soak(database_url: str, *, seconds: float, kill_every: float) -> Outcome:
    with running(database_url, workers=WORKERS) as server:
        scene = Scene(int(server.url.rpartition(":")[2]))
        killer = Killer(server, every=kill_every, choice=random.Random())
        clients = [Client(number, scene) for number in range(CLIENTS)]
        others = strangers(scene.port, scene.truth, scene.stopped)
        started = time.monotonic()
        for thread in (*clients, killer):
            thread.start()
        for other in others:
            other.start()
        time.sleep(seconds)
        killer.stop()  # first: what is in flight is then answered
        scene.stopped.set()
        for client in clients:
            client.join(_FINISH_SECONDS)
        for other in others:
            other.finish()
        took = time.monotonic() - started
    outcome = Outcome(took, scene.truth, [client.tally for client in clients], killer.moments, list(killer.faults))
    outcome.faults += [f"{client.name} did not finish" for client in clients if client.is_alive()]
    outcome.faults += [fault for other in others for fault in other.faults]
    outcome.faults += of_clients(outcome)
    outcome.faults += _of_the_database(database_url, outcome.truth)
    return outcome


def _of_the_database(database_url: str, truth: Truth) -> list[str]:
    database = Database(database_url)
    try:
        return checking.faults(database, truth) + checking.faults_of_ledgers(database_url)
    finally:
        database.close()


def of_clients(outcome: Outcome) -> Iterator[str]:
    """A request may fail only because its worker was killed."""
    for tally in outcome.tallies:
        yield from tally.faults
    breaks, kills = outcome.breaks, outcome.kills
    if not breaks:
        yield f"no connection broke in {len(kills)} kills, which therefore proved nothing"
    if len(breaks) > len(outcome.tallies) * len(kills):
        yield f"{len(breaks)} connections broke, more than {len(outcome.tallies)} clients have in {len(kills)} kills"
    stray = [moment for moment in breaks if not any(0 <= moment - kill <= _AFTER_A_KILL for kill in kills)]
    if stray:
        yield f"{len(stray)} connections broke while no worker was killed"
