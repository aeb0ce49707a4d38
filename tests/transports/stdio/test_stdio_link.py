"""A server over its standard streams, behaving well."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from interlock.transports.stdio.client import StdioLink
from interlock.transports.stdio.process import INHERITED, Command, ServerProcess
from interlock.wire.errors import Fault
from interlock.wire.messages import EMPTY_OBJECT
from waiting import until


async def test_every_answer_goes_to_whoever_asked(run) -> None:
    server = await run()
    answers = await asyncio.gather(*(server.ask("echo", {"n": n}) for n in range(500)))
    assert [answer["n"] for answer in answers] == list(range(500))
    assert server.link.pending == 0


async def test_requests_of_one_turn_go_out_in_one_write(run, monkeypatch: pytest.MonkeyPatch) -> None:
    class CountingPipe:
        def __init__(self, pipe: asyncio.WriteTransport) -> None:
            self.pipe, self.writes = pipe, 0

        def write(self, data: bytes) -> None:
            self.writes += 1
            self.pipe.write(data)

        def __getattr__(self, name: str) -> object:
            return getattr(self.pipe, name)

    start, pipes = ServerProcess.start, list[CountingPipe]()

    async def counted(*arguments: Any) -> ServerProcess:
        process = await start(*arguments)
        pipes.append(CountingPipe(process.stdin))
        process.stdin = cast(asyncio.WriteTransport, pipes[0])
        return process

    monkeypatch.setattr(ServerProcess, "start", counted)
    server = await run()
    await asyncio.gather(*(server.ask("echo") for _ in range(50)))
    assert [pipe.writes for pipe in pipes] == [1]


async def test_params_with_line_breaks_stay_one_line(run) -> None:
    server = await run()
    waiting = server.start("echo")
    outgoing_params = b'{\n  "text": "two\\nlines"\n}'
    server.link.tell("notifications/x", outgoing_params)
    await waiting.future
    assert (await server.ask("last notification"))["seen"] == [
        {"jsonrpc": "2.0", "method": "notifications/x", "params": {"text": "two\nlines"}}
    ]


async def test_the_server_sees_the_inherited_few_and_what_was_named(run, monkeypatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HUB", "1")
    server = await run(env={"TOKEN": "t"})
    seen = set(await server.ask("env")) - {"LC_CTYPE", "__CF_USER_TEXT_ENCODING"}
    assert "TOKEN" in seen
    assert seen <= {*INHERITED, "TOKEN", "INTERLOCK_MARK"}


async def test_the_server_runs_where_it_was_told_to(run, tmp_path: Path) -> None:
    server = await run(cwd=str(tmp_path))
    assert str((await server.ask("where"))["cwd"]).endswith(tmp_path.name)


async def test_progress_reaches_the_request_and_gives_it_more_time(run) -> None:
    server = await run()
    await server.ask("progress", wants_progress=True)
    assert [msgspec.json.decode(params)["progress"] for _, params in server.notes] == [0, 1, 2]


async def test_progress_moves_the_deadline_no_further_than_the_last_one(run) -> None:
    server = await run()
    loop = asyncio.get_running_loop()
    waiting = server.start("progress, then silent", seconds=600, wants_progress=True, max_deadline=loop.time() + 0.3)
    with pytest.raises(Fault) as lost:
        await asyncio.wait_for(waiting.future, 120)
    assert lost.value.name == "UPSTREAM_TIMEOUT"


async def test_a_deadline_ends_the_wait_and_the_server_is_told(run) -> None:
    server = await run()
    waiting = server.start("silent", seconds=0.05)
    with pytest.raises(Fault) as lost:
        await waiting.future
    assert lost.value.name == "UPSTREAM_TIMEOUT"
    [cancelled] = (await server.ask("last notification"))["seen"]
    assert cancelled["method"] == "notifications/cancelled"
    assert cancelled["params"]["requestId"] == server.handle - 1


async def test_a_handshake_that_takes_too_long_is_not_cancelled(run) -> None:
    server = await run()
    with pytest.raises(Fault):
        await server.start("initialize", seconds=0.05).future
    assert (await server.ask("last notification"))["seen"] == []


async def test_a_cancelled_request_hears_nothing_more(run) -> None:
    server = await run()
    waiting = server.start("silent")
    server.link.cancel(server.handle, "changed my mind")
    [cancelled] = (await server.ask("last notification"))["seen"]
    assert cancelled["params"] == {"requestId": 1, "reason": "changed my mind"}
    assert not waiting.future.done()
    assert server.link.pending == 0


async def test_pings_are_answered_at_once_and_other_questions_by_the_listener(run) -> None:
    server = await run()
    server.listener.on_question = lambda request: server.link.answer(request.id, b'{"roots":[]}')
    result = await server.ask("ask")
    assert result["pong"] == {"jsonrpc": "2.0", "id": "p", "result": {}}
    assert result["answer"] == {"jsonrpc": "2.0", "id": "q", "result": {"roots": []}}


async def test_a_question_is_answered_once(run) -> None:
    server = await run()
    await server.ask("ask twice")
    assert len(server.listener.questions) == 1
    assert server.link.complaints.counts["refused"] == 1
    server.link.answer("q", EMPTY_OBJECT)
    server.link.answer("q", EMPTY_OBJECT)
    assert (await server.ask("echo", {"n": 1})) == {"n": 1}


async def test_notifications_of_a_subscription_go_to_it_and_others_to_the_listener(run) -> None:
    server = await run()
    waiting = server.start("subscriptions/listen")
    with pytest.raises(Fault, match="ended the subscription"):
        await waiting.future
    assert [method for method, _ in server.notes] == [
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
    ]
    assert [method for method, _ in server.listener.notes] == ["notifications/tools/list_changed"]


async def test_a_batch_is_taken_apart(run) -> None:
    server = await run()
    assert await server.ask("batch") == {}
    assert server.listener.notes == [("notifications/message", b"{}")]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (Command(("no-such-program-at-all",)), "command not found"),
        (Command(("/",)), "not allowed"),
        (Command(("true",), cwd="/no/such/folder"), "no such folder"),
        (Command(()), "no command"),
    ],
)
async def test_a_server_that_cannot_be_started_says_why(command: Command, said: str) -> None:
    with pytest.raises(Fault, match=said) as refused:
        await StdioLink.spawn(command, None)
    assert refused.value.name == "UPSTREAM_UNAVAILABLE"
    assert refused.value.hint


async def test_pieces_that_arrive_behind_a_large_message_are_read_in_their_order(run) -> None:
    """The loop may hand over a piece that it read before reading was paused, and a line may begin in one piece and end
    in the next."""
    server = await run()
    notes = [b'{"jsonrpc":"2.0","method":"notifications/x","params":{"n":%d}}\n' % n for n in range(1, 200)]
    large = b'{"jsonrpc":"2.0","method":"notifications/x","params":{"n":0,"text":"%b"}}\n' % (b"x" * 100_000)
    sent = large + b"".join(notes)
    for piece in (sent[:-1_010], sent[-1_010:-501], sent[-501:]):
        server.link.output.take_in(piece)
    heard = server.listener.notes
    await until(lambda: len(heard) == 200)
    assert [msgspec.json.decode(params)["n"] for _, params in heard] == list(range(200))
