"""Servers that are wrong in every way: their own calls fail with a clear error, and nobody else notices."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import re
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interlock.config.settings import HubSettings, RestartSettings, ServerSettings, TimeoutSettings
from interlock.hub.catalog.definitions import make_offer
from interlock.hub.upstreams import listing
from interlock.hub.upstreams.logs import MAX_LINES
from interlock.hub.upstreams.states import ServerState
from interlock.transports.stdio import process

from .raw_server import RawHttpServer
from .running_hub import HERE, RawClient, RunningHub, child, running_hub, text_of, until

WITHIN_S = 4.0
"""How long the neighbour may take to answer, on a busy machine twenty times as long as its first call more."""


class HostileSetup:
    """A hub with a hostile server, and a healthy one that is called all the while."""

    def __init__(self, hub: RunningHub, started: Path) -> None:
        self.hub = hub
        self.client = RawClient(hub.url + "/mcp")
        self.neighbour_calls = 0
        self.first = self.slowest = 0.0
        self._started = started

    async def call(self, tool: str, arguments: dict[str, Any] | None = None) -> Any:
        """Call a tool of the hostile server."""
        return await self.client.modern("tools/call", {"name": f"bad__{tool}", "arguments": arguments or {}})

    async def is_well(self) -> None:
        """The hostile server answers, again or still: one that was ended takes a moment to come back."""

        async def answered() -> Any:
            answer = await self.call("ok")
            return answer if "result" in answer else None

        assert text_of(await until(answered)) == "fine"

    @property
    def log(self) -> str:
        """The operator's view of it."""
        return "\n".join(line.text for line in self.hub.hub_app.logs.tail("bad", MAX_LINES))

    async def status(self) -> Any:
        """The answer that `interlock status` gets."""
        return await self.hub.operate("status")

    @property
    def pids(self) -> list[int]:
        """Every process that it started, itself too."""
        return [int(line) for line in self._started.read_text().split()]

    async def call_neighbour(self) -> None:
        """One call after another, each of which must be answered, and soon."""
        while True:
            begun = time.monotonic()
            answer = await RawClient(self.hub.url + "/mcp").modern("tools/call", ECHO)
            assert text_of(answer) == "still here"
            self.slowest = max(self.slowest, time.monotonic() - begun)
            self.first = self.first or self.slowest
            self.neighbour_calls += 1
            await asyncio.sleep(0.05)


ECHO: dict[str, Any] = {"name": "good__echo", "arguments": {"text": "still here"}}


@contextlib.asynccontextmanager
async def hostile_setup(
    tmp_path: Path, bad: ServerSettings, *, tool_s: float = 10, start_s: float = 15, wait: bool = True
) -> AsyncIterator[HostileSetup]:
    """While this lasts the neighbour is called; afterwards nothing is left of anything."""
    # The first child starts the fork server of all tests, which stays.
    servers = {"bad": bad, "good": child("busy_server.py", era="modern")}
    before = descriptors(), len(asyncio.all_tasks())
    started = tmp_path / "started"
    started.touch()
    timeouts = TimeoutSettings(start_s=start_s, discovery_s=start_s / 3, tool_s=tool_s)
    async with running_hub(tmp_path, servers, wait=False, hub=HubSettings(timeouts=timeouts)) as hub:
        await hub.state("good", ServerState.CONNECTED)
        here = HostileSetup(hub, started)
        if wait:
            await hub.state("bad", ServerState.CONNECTED)
        calling = asyncio.create_task(here.call_neighbour())
        try:
            yield here
            reached = here.neighbour_calls
            await until(lambda: calling.done() or here.neighbour_calls > reached + 2)
        finally:
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
        assert calling.cancelled(), calling.exception()
        assert here.slowest < WITHIN_S + 20 * here.first
    gc.collect()
    await until(lambda: not any(alive(pid) for pid in here.pids), within=120)
    await until(lambda: descriptors() <= before[0] and len(asyncio.all_tasks()) <= before[1], within=120)


def hostile(tmp_path: Path, mode: str = "", **settings: Any) -> ServerSettings:
    """The hostile server, as a process."""
    command = (sys.executable, "-I", str(HERE / "hostile_server.py"), mode)
    env = {"STARTED": str(tmp_path / "started"), **settings.pop("env", {})}
    restart = RestartSettings(backoff_base_ms=50, backoff_max_ms=100)
    return ServerSettings(command=command, env=env, era="legacy", **{"restart": restart, **settings})


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def refusal(answer: Any) -> str:
    """The message of a failed call."""
    assert "error" in answer, answer
    return str(answer["error"]["message"])


# Over standard streams


async def test_rubbish_around_an_answer_is_shown_to_the_operator_and_costs_nothing(tmp_path: Path) -> None:
    async with hostile_setup(tmp_path, hostile(tmp_path)) as here:
        assert text_of(await here.call("rubbish")) == "fine"
        assert "Server running on port 3000" in here.log
        assert "\x1b" not in here.log
        await here.is_well()
        assert len(here.pids) == 1


BROKEN_ANSWERS = {
    "half_line": "exit",
    "huge_line": "over the limit",
    "no_newline": "flood",
    "flood_rubbish": "flood",
    "die": "exit",
    "not_an_object": "",
    "both": "",
    "bad_error": "",
    "too_deep": "",
}
"""By tool, the reason that its caller is told."""


async def test_a_call_without_a_proper_answer_fails_with_a_reason_and_the_next_one_is_served(tmp_path: Path) -> None:
    patient = RestartSettings(backoff_base_ms=50, backoff_max_ms=100, max_restarts=len(BROKEN_ANSWERS))
    async with hostile_setup(tmp_path, hostile(tmp_path, restart=patient), tool_s=120) as here:
        for tool, said in BROKEN_ANSWERS.items():
            answer = await here.call(tool)
            assert said in refusal(answer), (tool, answer)
            await here.is_well()


async def test_the_last_words_of_a_server_are_in_the_logs(tmp_path: Path) -> None:
    async with hostile_setup(tmp_path, hostile(tmp_path)) as here:
        refusal(await here.call("half_line"))
        await until(lambda: "the disk is full" in here.log)


async def test_answers_to_what_nobody_asked_are_nobodys_answers(tmp_path: Path) -> None:
    async with hostile_setup(tmp_path, hostile(tmp_path), tool_s=1) as here:
        assert "in time" in refusal(await here.call("wrong_ids"))
        await here.is_well()


async def test_a_second_answer_to_a_call_is_not_the_answer_to_the_next(tmp_path: Path) -> None:
    async with hostile_setup(tmp_path, hostile(tmp_path)) as here:
        for _ in range(3):
            assert text_of(await here.call("twice")) == "first"
            assert text_of(await here.call("ok")) == "fine"


async def test_a_server_that_never_answers_is_given_up_at_the_deadline(tmp_path: Path) -> None:
    async with hostile_setup(tmp_path, hostile(tmp_path), tool_s=1) as here:
        async with asyncio.timeout(120):
            assert "in time" in refusal(await here.call("hang"))
        await here.is_well()


async def test_a_server_cannot_cancel_what_was_asked_of_it(tmp_path: Path) -> None:
    async with hostile_setup(tmp_path, hostile(tmp_path)) as here:
        assert text_of(await here.call("cancel_it")) == "fine"


@pytest.mark.parametrize("flood", ["flood_logs", "flood_progress", "flood_questions", "flood_stderr"])
async def test_a_flood_is_bounded_and_passes(tmp_path: Path, flood: str) -> None:
    async with hostile_setup(tmp_path, hostile(tmp_path)) as here:
        assert text_of(await here.call(flood)) == "fine"
        await here.is_well()
        assert len(here.hub.hub_app.logs.tail("bad", 10**6)) <= MAX_LINES


async def test_a_flood_of_changes_leads_to_few_listings(tmp_path: Path) -> None:
    async with hostile_setup(tmp_path, hostile(tmp_path)) as here:
        assert text_of(await here.call("flood_changes")) == "fine"
        assert int(text_of(await here.call("lists"))) <= 3


async def test_calls_beside_one_that_fails_are_answered(tmp_path: Path) -> None:
    async with hostile_setup(tmp_path, hostile(tmp_path)) as here:
        answers = await asyncio.gather(*(here.call(tool) for tool in ("ok", "both", "ok", "not_an_object", "ok")))
        assert [text_of(answer) for answer in answers if "result" in answer] == ["fine"] * 3
        assert ["error" in answer for answer in answers] == [False, True, False, True, False]


# How it starts and ends


async def test_a_server_that_exits_at_once_says_why_to_operators_and_callers_get_its_exit_code(tmp_path: Path) -> None:
    async with hostile_setup(tmp_path, hostile(tmp_path, "exit_at_once"), wait=False) as here:
        await here.hub.state("bad", ServerState.ERROR)
        assert "HOSTILE_TOKEN" in here.log
        problem = here.hub.hub_app.upstreams["bad"].problem
        assert problem is not None
        assert "HOSTILE_TOKEN" in problem.for_operators
        # It was never connected, so nothing limits how often it is tried.
        await until(lambda: len(here.pids) > 1 + RestartSettings().max_restarts)
        refused = await here.call("ok")
        assert re.match("server bad is (down|restarting) because the server exited with code 1", refusal(refused))
        # Its stderr is text of a server that no gate saw.
        assert "HOSTILE_TOKEN" not in refusal(refused)
        assert "interlock logs bad" in str(refused)


async def test_a_server_that_keeps_exiting_is_not_started_for_ever(tmp_path: Path) -> None:
    async with hostile_setup(tmp_path, hostile(tmp_path, "exit_after_hello"), wait=False) as here:
        await until(lambda: "too many restarts" in here.log)
        assert len(here.pids) == 1 + RestartSettings().max_restarts
        assert not any(alive(pid) for pid in here.pids)


async def test_a_server_that_says_nothing_holds_back_nobody(tmp_path: Path) -> None:
    async with hostile_setup(tmp_path, hostile(tmp_path, "silent"), start_s=600, wait=False) as here:
        listed = await asyncio.wait_for(here.client.modern("tools/list"), 120)
        assert {tool["name"].partition("__")[0] for tool in listed["result"]["tools"]} == {"good"}


async def test_a_server_that_ignores_signals_is_ended_with_everything_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "PATIENCE", 0.2)
    async with hostile_setup(tmp_path, hostile(tmp_path, "stubborn")) as here:
        await here.is_well()
        assert len(here.pids) == 2
        assert all(alive(pid) for pid in here.pids)


# Its lists


async def test_a_list_without_an_end_is_given_up_and_told(tmp_path: Path) -> None:
    for mode in ("same_cursor", "new_cursors", "no_list"):
        folder = tmp_path / mode
        folder.mkdir()
        async with hostile_setup(folder, hostile(folder, mode)) as here:
            assert "could not be read" in here.log
            (shown,) = (each for each in (await here.status())["servers"] if each["id"] == "bad")
            assert shown["problem"].startswith("its lists could not be read: ")
            assert re.search("its lists (could not be read|failed)", refusal(await here.call("ok")))
            listed = (await here.client.modern("tools/list"))["result"]["tools"]
            assert not [tool for tool in listed if tool["name"].startswith("bad__")]


async def test_a_definition_that_nobody_could_read_is_left_out_before_it_is_read(tmp_path: Path) -> None:
    # A busy machine may take long to read so much.
    async with hostile_setup(tmp_path, hostile(tmp_path, "huge_tools"), start_s=180) as here:
        await here.is_well()
        listed = (await here.client.modern("tools/list"))["result"]["tools"]
        assert [tool["name"] for tool in listed if tool["name"].startswith("bad__")] == ["bad__ok"]
        assert here.log.count("bytes, more than") == 2


async def test_tools_that_cannot_be_used_are_left_out_or_refused_one_by_one(tmp_path: Path) -> None:
    async with RawHttpServer() as away:
        bad = hostile(tmp_path, "strange_tools", env={"AWAY": away.url})
        async with hostile_setup(tmp_path, bad, tool_s=5) as here:
            listed = (await here.client.modern("tools/list"))["result"]["tools"]
            names = [tool["name"].removeprefix("bad__") for tool in listed if tool["name"].startswith("bad__")]
            assert names.count("ok") == 1
            assert not {"header", "no_schema", "true_schema"} & set(names)
            assert all(name.isprintable() and len(name) <= 64 for name in names)
            assert "x-mcp-header of a is not a header name" in here.log
            await here.is_well()
            for name in ("remote", "remote_part", "file", "wrong_schema"):
                if name in names:
                    assert "schema" in refusal(await here.call(name, {"a": "x"}))
            for name in {"bomb", "itself", "deep", "app_meta", "hints", "big_number"} & set(names):
                await asyncio.wait_for(here.call(name, {"a": {"a": {}}}), 120)
            await asyncio.wait_for(here.call("slow_pattern", {"a": "a" * 5000 + "!"}), 120)
            await here.is_well()
        assert away.connections == 0, "a schema was fetched"


async def test_a_bug_of_the_hub_over_one_server_is_that_servers_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(server: str, *lists: Any, **rules: Any) -> Any:
        if server == "bad":
            raise ZeroDivisionError("a bug of ours")
        return make_offer(server, *lists, **rules)

    monkeypatch.setattr(listing, "make_offer", broken)
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["exception"]))
    async with hostile_setup(tmp_path, hostile(tmp_path), wait=False) as here:
        await here.hub.state("bad", ServerState.ERROR)
        assert "a bug of ours" in here.log
        monkeypatch.undo()
        await here.is_well()
    assert {type(error) for error in reported} == {ZeroDivisionError}


# Over HTTP

ANSWER = b'{"jsonrpc":"2.0","id":%ID%,"result":{"content":[{"type":"text","text":"fine"}]}}'


def response(body: bytes, *headers: str, status: str = "200 OK", kind: str = "application/json") -> bytes:
    """A response with a length; `%ID%` stands for the id of the request."""
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


BAD_ANSWERS = {
    "ten thousand cookies": response(ANSWER, *["set-cookie: a=b"] * 10_000),
    "a header of five megabytes": response(ANSWER, "x: " + "y" * 5_000_000),
    "compressed, it says": response(ANSWER, "content-encoding: gzip"),
    "a page": response(ANSWER, kind="text/html"),
    "a login page": response(b"<html>login</html>", kind="text/html"),
    "led away": response(ANSWER, "location: http://169.254.169.254/", status="307 Moved"),
    "another id": response(ANSWER.replace(b"%ID%", b"99")),
    "a number": response(b"5"),
    "nothing": response(b""),
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n",
    "a closed connection": b"",
    "cut short": response(ANSWER)[:-20],
    "events of rubbish": response(b"data: {\n\n" * 5000, kind="text/event-stream"),
    "a huge event": response(b"data: " + b"x" * 12_000_000, kind="text/event-stream"),
    "two answers at once": response(b"{}", status="500 Oops") + response(ANSWER),
}


async def test_a_bad_answer_over_http_fails_its_call_and_the_next_one_is_served(tmp_path: Path) -> None:
    async with RawHttpServer() as web:
        bad = ServerSettings(url=web.url, era="legacy")
        async with hostile_setup(tmp_path, bad, tool_s=2) as here:
            for kind, reply in BAD_ANSWERS.items():
                web.replies["strange"] = reply
                assert "error" in await here.call("strange"), kind
                await here.is_well()


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (
            response(b"<html>", kind="text/html"),
            "it answered with text/html, which is neither",
        ),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "its answer is not valid HTTP: "),
    ],
)
async def test_a_bad_answer_over_http_is_told_in_words_that_help(tmp_path: Path, reply: bytes, said: str) -> None:
    async with RawHttpServer() as web:
        async with hostile_setup(tmp_path, ServerSettings(url=web.url, era="legacy"), tool_s=2) as here:
            web.replies["strange"] = reply
            assert refusal(await here.call("strange")).startswith(said)


async def test_a_session_that_a_server_lost_is_not_said_to_be_the_clients(tmp_path: Path) -> None:
    async with RawHttpServer() as web:
        web.session = "s1"
        async with hostile_setup(tmp_path, ServerSettings(url=web.url, era="legacy"), tool_s=2) as here:
            web.replies["strange"] = response(b"", status="404 Gone")
            answer = await here.call("strange")
            assert refusal(answer) == "bad lost its session with the hub"
            assert answer["error"]["data"]["name"] == "UPSTREAM_UNAVAILABLE"
            await here.is_well()


async def test_an_answer_that_drips_for_ever_ends_at_the_deadline(tmp_path: Path) -> None:
    async with RawHttpServer() as web:
        bad = ServerSettings(url=web.url, era="legacy")
        async with hostile_setup(tmp_path, bad, tool_s=1) as here:
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
            web.replies["strange"] = head
            web.drip = b": \n"
            async with asyncio.timeout(120):
                assert "in time" in refusal(await here.call("strange"))
            await here.is_well()
