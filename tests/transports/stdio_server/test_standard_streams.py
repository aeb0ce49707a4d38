"""A server as a process of its own, over its real standard streams."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from line_peer import META, LinePeer

SOURCE = Path(__file__).resolve().parents[3] / "src"
PROGRAM = '''
import os, subprocess, sys, threading, time
from interlock.server import Context, Server

server = Server("child")

@server.tool
def noisy() -> str:
    """Prints where it must not."""
    print("this is not JSON")
    os.write(1, b"nor is this\\n")
    subprocess.run([sys.executable, "-c", "print('nor this')"])
    return sys.stdin.read()

@server.tool
def stuck() -> None:
    """Never comes back."""
    time.sleep(3600)

@server.tool
async def pid() -> int:
    return os.getpid()

server.run()
'''


@contextlib.asynccontextmanager
async def child(
    program: str = PROGRAM, stdout: int = subprocess.PIPE
) -> AsyncIterator[tuple[LinePeer, asyncio.subprocess.Process]]:
    """A child process and a peer on its streams. The peer reads nothing where the output goes elsewhere."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        limit=16 * 1024 * 1024,
    )
    assert process.stdin is not None
    try:
        yield LinePeer(process.stdout or asyncio.StreamReader(), process.stdin), process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_nothing_that_a_tool_prints_reaches_the_client() -> None:
    async with child() as (peer, process):
        answer = await peer.call("tools/call", name="noisy")
        assert answer["result"]["structuredContent"] == ""
        peer.writer.close()
        assert process.stdout is not None
        assert process.stderr is not None
        assert await process.stdout.read() == b""
        said = (await process.stderr.read()).decode()
        assert {"this is not JSON", "nor is this", "nor this"} <= set(said.splitlines())


async def test_it_ends_at_once_when_its_input_ends_whatever_runs() -> None:
    async with child() as (peer, process):
        peer.send("tools/call", name="stuck")
        assert "result" in await peer.call("tools/call", name="pid")
        peer.writer.close()
        assert await asyncio.wait_for(process.wait(), 120) == 0


async def test_it_ends_when_nobody_reads_its_output_any_more() -> None:
    output, its_output = os.pipe()
    async with child(stdout=its_output) as (peer, process):
        os.close(its_output)
        peer.send("tools/call", name="pid")
        assert await asyncio.to_thread(os.read, output, 1)
        os.close(output)
        with contextlib.suppress(ConnectionError):
            while process.returncode is None:
                peer.send("tools/call", name="pid")
                await peer.writer.drain()
                await asyncio.wait({asyncio.create_task(process.wait())}, timeout=0.05)
        assert await asyncio.wait_for(process.wait(), 120) == 0


async def test_requests_from_a_file_are_answered_into_a_file() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":%b}}\n'
    import msgspec

    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as sink:
        source.write(line % msgspec.json.encode(META))
        source.seek(0)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, stdin=source, stdout=sink, env={**os.environ, "PYTHONPATH": str(SOURCE)}
        )
        assert await asyncio.wait_for(process.wait(), 120) == 0
        sink.seek(0)
        answers = sink.read().splitlines()
    assert [msgspec.json.decode(answer)["id"] for answer in answers] == [1]


@pytest.mark.parametrize("modern", [True, False])
async def test_the_demo_server_is_of_use_from_the_command_line(modern: bool) -> None:
    async with child("import runpy; runpy.run_module('interlock.server.demo', run_name='__main__')") as (peer, _):
        if not modern:
            await peer.initialize()
        answer = await peer.call(
            "tools/call", modern=modern, name="convert", arguments={"value": 100, "source": "F", "target": "C"}
        )
        text = answer["result"]["content"][0]["text"]
        assert float(text) == pytest.approx(37.7777778)
