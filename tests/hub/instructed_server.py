"""A server that does on the wire exactly what the arguments of a call say, in either era: what no SDK would do.

Within a test over HTTP, where it also shows what it heard; as a script over standard streams. A call of `do` in the
handshake era has `steps`, in the stateless era `rounds`; see `InstructedServer`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

Say = Callable[[Any], None]
VERSION = "io.modelcontextprotocol/protocolVersion"
OFFERED = {"tools": {"listChanged": True}, "resources": {"subscribe": True, "listChanged": True}, "logging": {}}
LISTS: dict[str, Any] = {
    "tools/list": {"tools": [{"name": "do", "inputSchema": {"type": "object"}}]},
    "resources/list": {"resources": [{"uri": "note://one", "name": "one"}]},
    "resources/templates/list": {"resourceTemplates": []},
}
TASK = "the task"
"""In what it asks: the id of the last task that a client has begun for it."""
QUIET = ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")


class InstructedServer:
    """It follows the instructions in its arguments.

    Steps are `ask`, a request of its own; `tell`, a notification; `wait` for the answer to one that it asked; each with
    `beside` on the standing stream instead of the call's own. The result is everything it waited for; what is in
    `afterwards` is done when it was sent.
    """

    def __init__(self, capabilities: dict[str, Any] | None = None, *, sessions: bool = True) -> None:
        self.heard: list[Any] = []
        self.sessions = sessions
        """Whether a handshake over HTTP opens a session."""
        self.url = ""
        self.session = ""
        """The session of the message that came last, over HTTP."""
        self._capabilities = OFFERED | (capabilities or {})
        self._answers: dict[Any, Any] = {}
        self._heard_more = asyncio.Condition()
        self._work: set[asyncio.Task[None]] = set()
        self._standing: dict[str, Say] = {}
        self._notes = ["note://one"]

    def asked(self, method: str) -> list[Any]:
        """The params of every request or notification of a method that it got."""
        return [message.get("params", {}) for message in self.heard if message.get("method") == method]

    def answer_to(self, id: Any) -> list[Any]:
        """Every answer to a request of its own."""
        return [message for message in self.heard if "method" not in message and message.get("id") == id]

    def forget(self, *notes: str) -> None:
        """Tell of no resource any more, but of these."""
        self._notes = list(notes)

    async def take(self, message: Any, say: Say, beside: Say) -> None:
        """Take a message, and answer it if it wants an answer."""
        self.heard.append(message)
        async with self._heard_more:
            if "method" not in message:
                self._answers[message["id"]] = message
            self._heard_more.notify_all()
        if "method" in message and "id" in message:
            said = await self._serve(message, say, beside)
            say({"jsonrpc": "2.0", "id": message["id"], **said})
            arguments = message.get("params", {}).get("arguments", {})
            await self._steps({"steps": arguments.get("afterwards", [])}, say, beside)

    async def _serve(self, message: Any, say: Say, beside: Say) -> Any:
        method, params = message["method"], message.get("params", {})
        modern = VERSION in params.get("_meta", {})
        if method == "tools/call":
            arguments = params.get("arguments", {})
            return self._round(params, arguments) if modern else await self._steps(arguments, say, beside)
        if method == "initialize":
            info = {"name": "instructed", "version": "1"}
            return _result({"protocolVersion": "2025-11-25", "capabilities": self._capabilities, "serverInfo": info})
        if method == "server/discover" and modern:
            return _result({"supportedVersions": ["2026-07-28"], "capabilities": self._capabilities}, modern)
        if method == "subscriptions/listen":
            agreed = {**params["notifications"], "resourceSubscriptions": self._notes}
            meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
            told = {"_meta": meta, "notifications": agreed}
            say({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": told})
            await asyncio.Event().wait()
        if method == "resources/subscribe" and params["uri"] not in self._notes:
            return {"error": {"code": -32602, "message": "there is no such resource"}}
        if method in LISTS or method in QUIET:
            return _result(LISTS.get(method, {}), modern)
        return {"error": {"code": -32601, "message": f"no such method: {method}"}}

    def _round(self, params: Any, arguments: Any) -> Any:
        """The next of `rounds`, each a question; after the last of them, the answers that came."""
        done = int(params.get("requestState", 1 if "inputResponses" in params else 0))
        rounds = arguments.get("rounds", [])
        if done == len(rounds):
            return _result(_text(params.get("inputResponses")), True)
        asked = {"resultType": "input_required", "requestState": str(done + 1), **rounds[done]}
        return {"result": {name: value for name, value in asked.items() if value is not None}}

    async def _steps(self, arguments: Any, say: Say, beside: Say) -> Any:
        got: list[Any] = []
        task = ""
        for step in arguments.get("steps", []):
            out = beside if step.get("beside") else say
            match step:
                case {"ask": asked}:
                    out({"jsonrpc": "2.0", **json.loads(json.dumps(asked).replace(TASK, task))})
                case {"tell": told}:
                    out({"jsonrpc": "2.0", **told})
                case {"wait": id_}:
                    async with self._heard_more:
                        await self._heard_more.wait_for(lambda wanted=id_: wanted in self._answers)  # type: ignore[misc]
                    got.append(self._answers.pop(id_))
                    task = got[-1].get("result", {}).get("task", {}).get("taskId", task)
                case {"until": method}:
                    async with self._heard_more:
                        await self._heard_more.wait_for(lambda wanted=method: self.asked(wanted))  # type: ignore[misc]
        return _result(_text(got))

    # Over HTTP

    @contextlib.asynccontextmanager
    async def http(self) -> AsyncIterator[InstructedServer]:
        """Listen, at `url`."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        try:
            yield self
        finally:
            server.close()
            for task in list(self._work):
                task.cancel()
            await asyncio.gather(*self._work, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        work = asyncio.current_task()
        assert work is not None
        self._work.add(work)
        try:
            while True:
                await self._request(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._work.discard(work)
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        session = headers.get("mcp-session-id", "")
        if first.startswith("GET"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            self._standing[session] = lambda message: writer.write(self.event(message))
            await asyncio.Event().wait()
        message = json.loads(body) if body else {}
        if "method" not in message or "id" not in message:
            if body:
                await self.take(message, _drop, _drop)
            writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
            return
        named = b""
        if message["method"] == "initialize" and self.sessions:
            session = str(len(self.heard))
            named = f"mcp-session-id: {session}\r\n".encode()
        self.session = session
        stream = b"content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        writer.write(b"HTTP/1.1 200 OK\r\n" + named + stream)
        beside = self._standing.get(session, _drop)
        await self.take(message, lambda said: writer.write(self.event(said)), beside)
        writer.write(b"0\r\n\r\n")

    def event(self, message: Any) -> bytes:
        """A message as a chunk of an event stream."""
        event = b"data: %b\n\n" % self.encode(message)
        return b"%x\r\n%b\r\n" % (len(event), event)

    def encode(self, message: Any) -> bytes:
        """The bytes of a message in an event."""
        return json.dumps(message).encode()


def _result(value: Any, modern: bool = False) -> Any:
    more = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if modern else {}
    return {"result": {**more, **value}}


def _text(value: Any) -> Any:
    return {"content": [{"type": "text", "text": json.dumps(value)}]}


def _drop(message: Any) -> None:
    """Nobody listens."""


async def over_stdio() -> None:
    """Serve standard streams, one message a line."""
    instructed, work = InstructedServer(), set()
    reader = asyncio.StreamReader(limit=2**22)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    def say(message: Any) -> None:
        print(json.dumps(message), flush=True)

    while line := await reader.readline():
        task = asyncio.ensure_future(instructed.take(json.loads(line), say, say))
        work.add(task)
        task.add_done_callback(work.discard)


if __name__ == "__main__":
    asyncio.run(over_stdio())
