"""Servers that print rubbish, lie, flood, hang or die: their own calls fail clearly, and nothing is left of them."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import os
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from interlock.client.sinks import FutureSink
from interlock.transports.fairness import Share
from interlock.transports.link import Outgoing
from interlock.transports.stdio import orphan_processes as leftovers
from interlock.transports.stdio import process
from interlock.transports.stdio.client import StdioLink
from interlock.transports.stdio.orphan_processes import OrphanProcesses, end_run, in_ps
from interlock.transports.stdio.server_lines import BAD_LINES
from interlock.transports.stdio.stderr_lines import (
    LAST_BYTES,
    LINE_BYTES,
    LINES_PER_SECOND,
    WAITING_BYTES,
    StderrLines,
)
from interlock.wire.errors import Fault
from interlock.wire.limits import Limits
from interlock.wire.messages import Failure
from processor_work import work_of
from unread_answers import FEW_MEMBERS, IN_BATCHES, LOG_LINES, UNREAD
from waiting import until

SMALL = Limits(message_bytes=64 * 1024)


def alive(pid: int) -> bool:
    """Whether a process runs; one that waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def lost(waiting) -> Fault:
    with pytest.raises(Fault) as caught:
        await asyncio.wait_for(waiting.future, 120)
    return caught.value


async def send_on(server, sent: list[FutureSink]) -> None:
    """More than any pipe holds."""
    for _ in range(20):
        sent.append(server.start("echo", {"x": "y" * 60_000}))
        await asyncio.sleep(0)


async def test_rubbish_is_reported_and_passed_over(run) -> None:
    server = await run()
    assert await server.ask("rubbish") == {}
    assert server.link.complaints.counts["line"] == 4
    assert any("Welcome to my server!" in text for stream, text in server.listener.lines if stream == "stdout")


async def test_wrong_and_repeated_ids_belong_to_nobody(run) -> None:
    server = await run()
    assert await server.ask("wrong ids") == {"from": 1}
    assert await server.ask("echo", {"n": 1}) == {"n": 1}
    assert server.link.complaints.counts["stray"] == 3


async def test_an_answer_that_cannot_be_read_fails_its_own_request(run) -> None:
    server = await run()
    other = server.start("silent")
    fault = await lost(server.start("unreadable"))
    assert fault.name == "UPSTREAM_ERROR"
    assert not other.future.done()


@pytest.mark.parametrize(("message", "reason"), (UNREAD | IN_BATCHES).values(), ids=UNREAD | IN_BATCHES)
async def test_the_caller_gets_the_reason_why_an_answer_cannot_be_read(run, message: bytes, reason: str) -> None:
    server = await run(limits=FEW_MEMBERS)
    fault = await lost(server.start("words", {"line": message.decode("latin-1")}))
    assert (fault.name, fault.message.partition(reason)[0]) == ("UPSTREAM_ERROR", "its answer cannot be read: ")
    assert reason in fault.message
    assert await server.ask("echo", {"n": 1}) == {"n": 1}


async def test_an_error_that_is_not_utf8_reaches_its_caller(run) -> None:
    server = await run()
    line = '{"jsonrpc":"2.0","id":%d,"error":{"code":3,"message":"no \xfcber"}}'
    answer = await server.start("words", {"line": line}).future
    assert isinstance(answer, Failure)
    assert (answer.error.code, answer.error.message) == (3, "no \ufffdber")


async def test_a_log_line_that_quotes_the_id_of_a_request_fails_no_request(run) -> None:
    server = await run()
    assert await server.ask("log", {"lines": [line.decode() for line in LOG_LINES]}) == {}
    assert server.link.complaints.counts["line"] == len(LOG_LINES)


async def test_an_answer_that_is_too_large_fails_its_own_request(run) -> None:
    server = await run(limits=SMALL)
    fault = await lost(server.start("big", {"bytes": 100_000}))
    assert "(`message_bytes`)" in fault.message
    assert await server.ask("echo", {"n": 1}) == {"n": 1}


async def test_a_fifty_megabyte_line_fails_its_own_request_within_bounded_memory(run) -> None:
    server = await run()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    big, echo = server.start("big", {"bytes": 50_000_000}), server.start("echo", {"n": 1})
    assert "(`message_bytes`)" in (await lost(big)).message
    assert (await echo.future).result == b'{"n":1}'
    assert server.link.complaints.counts["oversize"] == 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 * 1024


async def test_a_line_without_an_end_ends_the_server(run) -> None:
    server = await run()
    fault = await lost(server.start("no newline", {"bytes": 80_000_000}))
    assert fault.name == "OUTCOME_UNKNOWN"
    assert "flood" in fault.message


async def test_a_flood_of_rubbish_ends_the_server_and_is_not_repeated_to_the_operator(run) -> None:
    server = await run()
    fault = await lost(server.start("flood", {"lines": 5000}))
    assert "flood" in fault.message
    assert len(server.listener.lines) < 50


async def test_nobody_reads_the_rest_of_a_flood(run) -> None:
    server = await run()
    await lost(server.start("flood", {"lines": 500_000}))
    await server.listener.end
    assert server.link.complaints.counts["line"] == BAD_LINES + 1


async def test_what_nobody_asked_for_is_taken_a_little_at_a_time_and_nothing_of_it_is_lost(run) -> None:
    babbler, neighbour = await run(), await run()
    loop, notes, most = asyncio.get_running_loop(), babbler.listener.notes, 0
    babble = babbler.start("babble", {"lines": 10_000})
    while not babble.future.done():
        before = len(notes)
        turn = loop.create_future()
        loop.call_soon(turn.set_result, None)
        await turn
        most = max(most, len(notes) - before)
        if len(notes) % 7 == 0:
            assert await neighbour.ask("echo", {"x": 1}) == {"x": 1}
    assert len(notes) == 10_000
    assert most < 1_000, "one read of the pipe holds two thousand"


async def test_blank_lines_have_the_share_of_what_nobody_asked_for(run, monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[float] = []

    def spend(share: Share, seconds: float, now: float) -> float:
        spent.append(seconds)
        return real(share, seconds, now)

    real = Share.spend
    server = await run()
    assert await server.ask("echo", {"x": 1}) == {"x": 1}
    monkeypatch.setattr(Share, "spend", spend)
    assert await server.ask("blanks", {"lines": 4_000_000}) == {}
    assert len(spent) > 100, "each slice of them counts"
    fault = await lost(server.start("blanks", {"lines": 80_000_000}))
    assert "flood" in fault.message


async def test_a_server_that_babbles_and_dies_has_said_everything_first(run) -> None:
    server = await run()
    server.start("babble", {"lines": 3_000})
    died = server.start("die")
    await lost(died)
    assert len(server.listener.notes) == 3_000


async def test_half_a_line_and_an_exit_lose_every_request_and_say_how_it_ended(run) -> None:
    server = await run()
    silent, half = server.start("silent"), server.start("half")
    for waiting in (silent, half):
        fault = await lost(waiting)
        assert fault.name == "OUTCOME_UNKNOWN"
        assert "exited with code 3" in fault.message
    assert (await server.listener.end).message == "the server exited with code 3"
    with pytest.raises(Fault) as refused:
        server.start("echo")
    assert refused.value.name == "UPSTREAM_UNAVAILABLE"


async def test_the_last_words_on_stderr_explain_an_exit(run) -> None:
    server = await run()
    fault = await lost(server.start("die", {"code": 7}))
    assert str(fault) == "the server exited with code 7"
    assert fault.for_operators == "the server exited with code 7: out of cheese"
    assert ("stderr", "out of cheese") in server.listener.lines


async def test_an_old_line_on_stderr_is_not_named_as_the_cause_of_a_kill(run) -> None:
    server = await run()
    await server.ask("shout", {"lines": 1})
    await until(lambda: ("stderr", "line 0") in server.listener.lines)
    waiting = server.start("silent")
    os.kill(server.link.pid, signal.SIGKILL)
    assert (await lost(waiting)).message == "the server was killed by signal 9"


async def test_a_request_that_was_never_written_is_known_not_to_have_run(run) -> None:
    server = await run()
    waiting = server.start("echo")
    server.link.ended(0)
    assert (await lost(waiting)).name == "UPSTREAM_UNAVAILABLE"
    os.kill(server.link.pid, signal.SIGKILL)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # uvloop's children hold a second copy of it
async def test_a_server_that_closes_stdout_is_ended(run) -> None:
    server = await run()
    fault = await lost(server.start("close stdout"))
    assert "closed its stdout" in fault.message
    await server.link.close()
    assert not alive(server.link.pid)


async def test_a_server_that_does_not_read_is_refused_more_and_ended_when_answers_pile_up(run) -> None:
    server = await run("deaf", write_limit=100_000)
    with pytest.raises(Fault) as refused:
        await send_on(server, [])
    assert refused.value.name == "RESOURCE_EXHAUSTED"
    assert refused.value.retry_after_ms
    for _ in range(20):
        server.link.tell("notifications/x", b'{"x":"' + b"y" * 60_000 + b'"}')
    assert "does not read" in (await server.listener.end).message


async def test_a_server_that_reads_again_is_sent_to_again(run) -> None:
    server = await run("late", write_limit=100_000)
    sent: list[FutureSink] = []
    with pytest.raises(Fault):
        await send_on(server, sent)
    for waiting in sent:
        assert await asyncio.wait_for(waiting.future, 120)
    assert await server.ask("echo", {"n": 1}) == {"n": 1}


async def test_stubborn_servers_are_killed_with_everything_they_started(run, monkeypatch) -> None:
    monkeypatch.setattr(process, "PATIENCE", 0.2)
    server = await run("stubborn")
    child = (await server.ask("child"))["pid"]
    waiting = server.start("silent")
    await server.link.close()
    assert (await lost(waiting)).name == "OUTCOME_UNKNOWN"
    assert not alive(server.link.pid)
    await until(lambda: not alive(child))


async def test_grandchildren_do_not_survive_a_server_that_exits_by_itself(run) -> None:
    server = await run()
    child = (await server.ask("child"))["pid"]
    await lost(server.start("die"))
    await server.listener.end
    await until(lambda: not alive(child))


@pytest.mark.parametrize("ends", ["closed", "dies", "stubborn"])
async def test_what_a_server_started_in_a_session_of_its_own_ends_with_it(run, monkeypatch, ends: str) -> None:
    monkeypatch.setattr(process, "PATIENCE", 0.2)
    other = await run()
    spared = (await other.ask("daemon"))["pid"]
    server = await run("stubborn") if ends == "stubborn" else await run()
    daemon = (await server.ask("daemon"))["pid"]
    assert os.getsid(daemon) != server.link.pid
    if ends == "dies":
        await lost(server.start("die"))
    await server.link.close()
    await until(lambda: not alive(daemon))
    assert alive(spared)
    await other.link.close()
    assert not alive(spared)


async def test_what_is_left_is_ended_by_its_number_where_there_is_nothing_better(run, monkeypatch) -> None:
    monkeypatch.setattr(leftovers, "HANDLES", False)
    monkeypatch.setattr(leftovers, "PATIENCE_S", 0.1)
    server = await run()
    daemon = (await server.ask("daemon"))["pid"]
    await server.link.close()
    assert not alive(daemon)


async def test_what_is_left_of_many_servers_is_looked_for_together() -> None:
    looked = 0
    begun, going = threading.Event(), threading.Event()

    def nobody() -> Iterator[tuple[int, bytes]]:
        nonlocal looked
        looked += 1
        begun.set()
        going.wait(10)
        return iter(())

    looking = OrphanProcesses(nobody)
    first = asyncio.wrap_future(looking.end("a"))
    await asyncio.to_thread(begun.wait, 10)
    others = [asyncio.wrap_future(looking.end(str(number))) for number in range(3)]
    going.set()
    await asyncio.gather(first, *others)
    assert looked == 2


def test_only_processes_of_a_run_that_is_over_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    run = secrets.token_hex(8)
    mark = run + "0" * 16
    waits = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, env={"INTERLOCK_MARK": mark}) as one:
        assert end_run(run, os.getpid()) == set(), "its hub lives"
        assert one.poll() is None
        assert end_run(run, 1) == {one.pid}
        assert one.wait() == -signal.SIGTERM
    # From here on, no process gets a signal, also if more are found than should be.
    monkeypatch.setattr(leftovers, "end_processes", lambda pids, number: None)
    other, carriers = 2**30, (os.getpid(), os.getppid(), 2**30)
    monkeypatch.setattr(leftovers, "CARRIERS", lambda: [(pid, mark.encode()) for pid in carriers])
    assert end_run(run, 1) == {other}, "neither this process nor its parent"
    assert end_run("", 1) == end_run(run[:8], 1) == end_run(secrets.token_hex(8), 1) == set(), "no whole id of the run"


@pytest.mark.skipif(shutil.which("ps") is None, reason="there is no ps here")
async def test_marks_are_found_where_there_is_no_proc(run) -> None:
    server = await run()
    daemon = (await server.ask("daemon"))["pid"]
    # Linux has another option for the same.
    marks = dict(in_ps(("ps", "axeww", "-o", "pid=,command=")))
    mark = (await server.ask("env"))["INTERLOCK_MARK"]
    assert marks[server.link.pid] == marks[daemon] == str(mark).encode()
    assert list(in_ps(("no-such-program",))) == []


async def test_a_good_server_is_closed_without_signals(run, monkeypatch) -> None:
    monkeypatch.setattr(process, "PATIENCE", 3600)
    server = await run()
    await server.ask("echo")
    await server.link.close()
    assert server.listener.end.done()
    await server.link.close()


async def test_nothing_is_left_behind(run) -> None:
    async def one() -> None:
        server = await run()
        await server.ask("echo")
        server.start("silent")
        await server.link.close()

    await one()
    gc.collect()
    before = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())
    for _ in range(5):
        await one()
    gc.collect()
    await until(lambda: len(os.listdir("/proc/self/fd")) <= before[0])
    await until(lambda: len(asyncio.all_tasks()) <= before[1])


async def test_stderr_is_cut_into_bounded_lines(run) -> None:
    server = await run()
    await server.ask("shout", {"lines": 1000, "width": 10})
    await server.link.close()
    lines = [text for stream, text in server.listener.lines if stream == "stderr"]
    assert len(lines) < 3 * LINES_PER_SECOND
    assert any("dropped" in line for line in lines)


def logged(chatter: StderrLines, written: bytes, now: float = 0.0) -> list[str]:
    """The lines for the log that these bytes complete."""
    chatter.feed(written, now)
    return list(chatter.lines())


def test_a_long_line_of_stderr_is_cut_once() -> None:
    chatter = StderrLines()
    assert logged(chatter, b"z" * (3 * LINE_BYTES)) == []
    assert logged(chatter, b"z\n") == ["z" * LINE_BYTES + " (cut)"]


def test_stderr_cannot_colour_the_operators_terminal() -> None:
    written = b"\x1b[31mred\x1b[0m \x07bell \xff\tcaf\xc3\xa9 \xe2\x80\xae\n"
    assert logged(StderrLines(), written) == ["red \\x07bell � café \\x202e"]


NPM = b"""npm error code E404
npm error 404 Not Found - GET https://registry.npmjs.org/@nobody%2fx
npm error 404
npm error 404  The requested resource '@nobody/x@*' could not be found.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git url.
npm error A complete log of this run can be found in: /root/.npm/_logs/2026-debug-0.log
"""
PYTHON = b"""Traceback (most recent call last):
  File "/x/server.py", line 3, in <module>
    @server.list_resources()
     ^^^^^^^^^^^^^^^^^^^^^
AttributeError: 'Server' object has no attribute 'list_resources'
"""
NODE = (
    b"node:internal/modules/cjs/loader:1147\n  throw err;\n  ^\n\nError: Cannot find module '/x/y.js'\n"
    + b"    at Module._resolve (node:internal/modules/cjs/loader:1144:15)\n" * 8
    + b"  code: 'MODULE_NOT_FOUND',\n}\n\nNode.js v20.19.0\n"
)


@pytest.mark.parametrize(
    ("written", "explanation"),
    [
        (
            NPM,
            "npm error code E404; npm error 404 Not Found - GET https://registry.npmjs.org/@nobody%2fx; "
            "npm error 404  The requested resource '@nobody/x@*' could not be found.",
        ),
        (PYTHON, "AttributeError: 'Server' object has no attribute 'list_resources'"),
        (NODE, "  throw err;; Error: Cannot find module '/x/y.js';   code: 'MODULE_NOT_FOUND',"),
        (
            b"error: no\n  cause: client error\n  cause: bad certificate\n",
            "error: no;   cause: client error;   cause: bad certificate",
        ),
        (b"^^^^\n}\n", "^^^^; }"),
        (b"", ""),
    ],
    ids=["npm", "python", "node", "uv", "marks", "silence"],
)
def test_the_lines_that_explain_an_exit_are_chosen(written: bytes, explanation: str) -> None:
    chatter = StderrLines()
    chatter.feed(written, 0.0)
    assert chatter.explain_exit() == explanation


@pytest.mark.parametrize(("begin", "end"), [(b"npm error", b"x"), (b"", b'File "", line x'), (b"^", b"x")])
def test_long_last_lines_are_little_work_to_choose_from(begin: bytes, end: bytes) -> None:
    chatter = StderrLines()
    chatter.feed(b"%b%b%b\n" % (begin, b" " * 4_000, end), 0.0)
    assert work_of(chatter.explain_exit) < 20_000


async def test_one_waiters_bug_does_not_cost_another_its_answer(run) -> None:
    server = await run()
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))

    class Broken:
        def on_response(self, answer: object) -> None:
            raise ZeroDivisionError

    deadline = asyncio.get_running_loop().time() + 20
    server.link.send(Outgoing("echo", b"{}", deadline), Broken())
    assert await server.ask("echo", {"n": 2}) == {"n": 2}
    assert isinstance(reported[0], ZeroDivisionError)


def test_a_flood_of_stderr_is_counted_and_its_end_remembered() -> None:
    chatter = StderrLines()
    first = logged(chatter, b"".join(b"line %d\n" % number for number in range(LINES_PER_SECOND + 1_000)))
    assert first == [f"line {number}" for number in range(LINES_PER_SECOND)]
    assert logged(chatter, b"".join(b"more %d\n" % number for number in range(5_000)) + b"and") == []
    assert chatter.last[-1] == "more 4999"
    assert logged(chatter, b" on\n", 1.0) == ["(6000 more lines were dropped)", "and on"]


@pytest.mark.parametrize(
    "written",
    [(b"\x01" * LINE_BYTES + b"\n") * 32, b"a\n" * 131_072, (b"\x1b]" * 4096 + b"\n") * 32, b"\n" * 262_144],
    ids=["controls", "short lines", "escapes", "blank lines"],
)
def test_a_flood_of_stderr_is_little_work_at_once(written: bytes) -> None:
    chatter = StderrLines()
    chatter.feed(written, 0.0)

    def turn() -> None:
        StderrLines().feed(written, 0.0)
        next(chatter.lines(), "")

    assert work_of(turn) < 150_000, "so many turns of an empty loop take 3 or 4 ms"


def test_lines_of_stderr_that_wait_have_a_bound_of_bytes() -> None:
    chatter = StderrLines()
    line = b"x" * (LINE_BYTES - 1) + b"\n"
    chatter.feed(line * 100, 0.0)
    kept = len(list(chatter.lines()))
    assert WAITING_BYTES <= kept * len(line) < WAITING_BYTES + 2 * len(line)
    chatter.feed(line * 30, 1.0)
    *lines, dropped = chatter.finish()
    assert len(lines) * len(line) <= LAST_BYTES
    assert dropped == f"({30 + 1 - len(lines)} more lines were dropped)"


class Watcher:
    """Hears how it ended."""

    def __init__(self) -> None:
        self.end: asyncio.Future[Fault] = asyncio.get_running_loop().create_future()

    def on_notification(self, method: str, params: bytes) -> None: ...

    def asked(self, request: object) -> None: ...

    def on_closed(self, fault: Fault) -> None:
        self.end.set_result(fault)

    def on_log(self, stream: str, text: str) -> None: ...


async def test_a_program_that_ends_at_once_is_told_as_one_that_ended() -> None:
    """It may be gone before its pipes are ready for us."""
    for _ in range(20):
        watcher = Watcher()
        link = await StdioLink.spawn(process.Command(("true",), {}, None), watcher)
        assert "exited with code 0" in (await asyncio.wait_for(watcher.end, 120)).message
        await link.close()


@pytest.fixture
def as_windows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A system that says it is Windows, with a `taskkill` that writes down what it is told and does it."""
    told = types.SimpleNamespace(**vars(sys))
    told.platform = "win32"
    monkeypatch.setattr(process, "sys", told)
    monkeypatch.setattr(process, "PATIENCE", 0.5)
    said = tmp_path / "said"
    script = tmp_path / "taskkill"
    script.write_text(f'#!/bin/sh\necho "$@" >> {said}\nkill -9 -$4\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return said


async def test_without_process_groups_the_whole_tree_is_ended_by_the_systems_own_program(run, as_windows) -> None:
    server = await run("stubborn")
    child = (await server.ask("child"))["pid"]
    await server.link.close()
    # A close that waited in vain for the system's program returns before it.
    await until(lambda: as_windows.exists() and as_windows.read_text().endswith("\n"))
    assert set(as_windows.read_text().splitlines()) == {f"/T /F /PID {server.link.pid}"}
    await until(lambda: not alive(server.link.pid) and not alive(child))


def test_on_windows_no_server_opens_a_window_and_none_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    for name, flag in {"CREATE_NEW_PROCESS_GROUP": 0x200, "CREATE_NO_WINDOW": 0x08000000}.items():
        monkeypatch.setattr(process.subprocess, name, flag, raising=False)
    spec = importlib.util.spec_from_file_location("process_on_windows", process.__file__)
    assert spec is not None
    assert spec.loader is not None
    there = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(there)
    started: dict[str, Any] = {}

    class Loop(asyncio.SelectorEventLoop):
        async def subprocess_exec(self, *arguments: object, **options: object) -> Any:
            started.update(options)
            raise OSError("no such program")

    async def start() -> None:
        with pytest.raises(Fault, match="x"):
            await there.ServerProcess.start(there.Command(("x",)), StdioLink(cast(Any, None)), 1_000)

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(start())
    assert started["creationflags"] == 0x08000200
    assert "INTERLOCK_MARK" not in there.environment(there.Command(("x",)))


async def test_a_process_that_is_gone_is_not_ended_by_its_number(run, as_windows) -> None:
    server = await run("-c", "exit 3", program=("/bin/sh",))
    await server.listener.end
    await server.link.close()
    assert not as_windows.exists()


async def test_where_the_system_wants_the_whole_name_a_program_is_looked_up(run, as_windows, tmp_path: Path) -> None:
    script = tmp_path / "only-here"
    script.write_text("#!/bin/sh\nexit 7\n")
    script.chmod(0o755)
    server = await run(program=("only-here",), env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert (await server.listener.end).message == "the server exited with code 7"
