"""Who decodes next.

Large bodies are decoded in threads, which hold each other up. So only a few are at once, and of those who wait the next
API key has its turn: one sender of many large bodies delays its own, not those of others.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Result = TypeVar("_Result")


class Turns:
    """`run` is for the event loop's thread alone."""

    def __init__(self, at_once: int) -> None:
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="decode")
        self._free = at_once
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()  # who is next comes first

    async def run(self, who: Hashable, work: Callable[[], _Result]) -> _Result:
        """The work's result, done in a thread when it is this sender's turn."""
        await self._turn(who)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._pass_on()

    async def _turn(self, who: Hashable) -> None:
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on()  # the turn came just when nobody wanted it any more
            raise

    def _pass_on(self) -> None:
        """To the next sender who waits, and of that one to the request that came first."""
        while self._waiting:
            who, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[who] = turns  # at the end: others come first
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def close(self) -> None:
        """After the last request was answered."""
        self._threads.shutdown()
