"""The tails of log lines that the hub keeps: bounded, and read in order."""

from __future__ import annotations

from interlock.events import Bus
from interlock.hub.upstreams.logs import MAX_LINES, MAX_TAILS, Logs


def texts(logs: Logs, server: str | None, count: int) -> list[str]:
    return [line.text for line in logs.tail(server, count)]


async def test_servers_that_are_gone_lose_their_lines_once_many_others_have_come() -> None:
    logs = Logs(Bus())
    logs.add("chatty", "stderr", "first")
    for number in range(MAX_TAILS):
        logs.add(f"registered-{number}", "stderr", "started")
        if number == MAX_TAILS // 2:
            logs.add("chatty", "stderr", "second")
    assert texts(logs, "chatty", 5) == ["first", "second"], "a server that still writes keeps its lines"
    assert texts(logs, "registered-0", 5) == [], "the server that was silent for the longest time loses its lines"
    assert len(logs.tail(None, 2 * MAX_TAILS)) == MAX_TAILS + 1


async def test_the_newest_lines_of_all_servers_come_in_order() -> None:
    logs = Logs(Bus())
    for number in range(MAX_LINES + 10):
        logs.add(f"server-{number % 3}", "stderr", str(number))
    assert texts(logs, None, 4) == [str(number) for number in range(MAX_LINES + 6, MAX_LINES + 10)]
    assert texts(logs, "server-0", 1) == [str((MAX_LINES + 9) // 3 * 3)]
    assert texts(logs, None, 0) == []
