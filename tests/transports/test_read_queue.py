"""Connections with more to read take turns. One that cannot be read is ended, and the others read on."""

from __future__ import annotations

import asyncio

from interlock.transports.read_queue import ReadQueue


class Reader:
    """A connection with as many pieces to read as the test says."""

    def __init__(self, queue: ReadQueue, pieces: int, log: list[str], name: str) -> None:
        self._queue = queue
        self._pieces = pieces
        self._log = log
        self._name = name

    def read_on(self) -> None:
        self._log.append(self._name)
        self._pieces -= 1
        if self._pieces < 0:
            raise ZeroDivisionError
        if self._pieces:
            self._queue.add(self)

    def give_up(self) -> None:
        self._log.append(f"{self._name} is ended")


async def test_a_connection_that_cannot_be_read_is_ended_and_the_others_read_on() -> None:
    loop, log, reported = asyncio.get_running_loop(), list[str](), list[type]()
    loop.set_exception_handler(lambda _, context: reported.append(type(context["exception"])))
    queue = ReadQueue(loop)
    try:
        for name, pieces in (("bad", 0), ("good", 2)):
            queue.add(Reader(queue, pieces, log, name))
        while log.count("good") < 2:
            await asyncio.sleep(0)
    finally:
        loop.set_exception_handler(None)
    assert log == ["bad", "bad is ended", "good", "good"]
    assert reported == [ZeroDivisionError]
