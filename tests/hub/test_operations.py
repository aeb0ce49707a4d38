"""The table of operations: each has a right, bounded parameters and a result, and each is answered whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import json
import os
import socket
import struct
from asyncio.trsock import TransportSocket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from cases import each_case
from interlock.hub.admin.operation import OWNER, READ, WRITE, Operation
from interlock.hub.admin.operations import Operations
from interlock.hub.admin.people import ControlPeer
from interlock.hub.admin.table import OPERATIONS
from interlock.hub.audit.record import OPERATED, is_event
from interlock.hub.auth.principals import Principal
from interlock.store import StoreFull
from interlock.web.control import ControlSocket
from interlock.wire.errors import Fault

from .running_hub import AT_A_TERMINAL, RunningHub, child, running_hub
from .test_journal import entries

ALL = [*OPERATIONS.values()]
CHANGES_NOTHING = ("call", "chat.read", "logins.wait", "logins.poll", "rollback.plan", "clients.list")
"""Operations of the owner that the audit log shows as something else."""
HELLO = b'{"jsonrpc":"2.0","id":1,"method":"interlock/hello","params":{"role":"control"}}\n'
CALL_STATUS = b'{"jsonrpc":"2.0","id":2,"method":"hub/status","params":{}}\n'


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningHub]:
    async with running_hub(tmp_path_factory.mktemp("operations"), {"busy": child("busy_server.py")}) as running:
        yield running


def broken(operation: Operation, cause: BaseException | None = None) -> Mapping[str, Operation]:
    """The table with an operation that raises."""

    async def fail(self: object, by: Principal, params: Any, trace: str) -> msgspec.Struct:
        raise cause or RuntimeError("secret detail")

    fail.__qualname__ = operation.handler.__qualname__  # it names the class that the hub calls it on
    return {**OPERATIONS, operation.name: msgspec.structs.replace(operation, handler=fail)}


def sample(operation: Operation) -> dict[str, Any]:
    """Values for the parameters that an operation needs."""
    return {
        field.encode_name: _value(field.type) for field in msgspec.structs.fields(operation.params) if field.required
    }


def _value(kind: Any) -> Any:
    described = msgspec.inspect.type_info(kind)
    if isinstance(described, msgspec.inspect.Metadata):
        described = described.type
    match described:
        case msgspec.inspect.LiteralType(values=values):
            return values[0]
        case msgspec.inspect.IntType():
            return 1
        case msgspec.inspect.ListType():
            return ["camera"]
    return "busy"


@each_case("operation", ALL, ids=lambda operation: operation.name)
def test_every_operation_has_a_right_a_summary_and_structs(operation: Operation) -> None:
    assert operation.right in (READ, WRITE, OWNER)
    assert operation.summary
    for kind in (operation.params, operation.result):
        assert issubclass(kind, msgspec.Struct)
        assert kind.__doc__
    assert all(map(is_event, operation.events))
    assert bool(operation.events) or operation.right == READ or operation.name in CHANGES_NOTHING, "it leaves no trace"
    assert not (operation.path and operation.right == OWNER), "an address is for holders of keys"


@each_case("operation", ALL, ids=lambda operation: operation.name)
def test_every_number_that_an_operation_takes_has_bounds(operation: Operation) -> None:
    for kind in _numbers(msgspec.inspect.type_info(operation.params)):
        assert kind.ge is not None or kind.gt is not None, operation.name
        assert kind.le is not None or kind.lt is not None, operation.name


def _numbers(described: Any) -> list[Any]:
    inspect = msgspec.inspect
    match described:
        case inspect.IntType() | inspect.FloatType():
            return [described]
        case inspect.StructType(fields=fields):
            return [number for field in fields for number in _numbers(field.type)]
        case inspect.UnionType(types=types):
            return [number for kind in types for number in _numbers(kind)]
        case inspect.Metadata(type=kind) | inspect.ListType(item_type=kind):
            return _numbers(kind)
    return []


@pytest.mark.parametrize("operation", ALL, ids=lambda operation: operation.name)
async def test_nobody_performs_an_operation_without_the_right(hub: RunningHub, operation: Operation) -> None:
    operations = Operations(hub.hub_app, lambda: pytest.fail("the hub was stopped"))
    params = msgspec.json.encode(sample(operation))
    reader, writer = [
        await _principal(hub, f"{right} only", "person", right) for right in ("admin_read", "admin_write")
    ]
    strangers = [
        Principal("agent", "agent"),
        await _principal(hub, "robot", "agent", "admin_read", "admin_write"),
        writer if operation.right == READ else reader,
        *([await _principal(hub, "ada", "person", "admin_read", "admin_write")] if operation.right == OWNER else []),
    ]
    if operation.right == READ:
        del strangers[1]  # a robot may read, if its key says so
    for stranger in strangers:
        with pytest.raises(Fault) as refused:
            await operations.perform(stranger, operation.name, params)
        assert refused.value.name == "PERMISSION_DENIED", (stranger, refused.value)


async def _principal(hub: RunningHub, name: str, kind: Any, *permissions: str) -> Principal:
    text = await hub.new_key(name, kind, permissions=permissions)
    return hub.hub_app.authenticator.admit_key(text, "/mcp").principal


@pytest.mark.parametrize(
    "cause", [RuntimeError("secret detail"), KeyError("x"), StoreFull("full"), OSError(28, "full")]
)
async def test_an_operation_raises_nothing_but_a_fault(
    hub: RunningHub, monkeypatch: pytest.MonkeyPatch, cause: Exception
) -> None:
    operations = Operations(hub.hub_app, lambda: None)
    for operation in ALL:
        monkeypatch.setattr("interlock.hub.admin.operations.OPERATIONS", broken(operation, cause))
        with pytest.raises(Fault) as failed:
            params = msgspec.json.encode(sample(operation))
            await operations.perform(operations.hub_user, operation.name, params, peer=AT_A_TERMINAL)
        assert failed.value.name in ("INTERNAL_ERROR", "RESOURCE_EXHAUSTED")
        assert "secret detail" not in failed.value.message


class Terminal:
    """A connection to the control socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, method: str, params: object) -> Any:
        message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        self._writer.write(json.dumps(message).encode() + b"\n")
        answer = json.loads(await asyncio.wait_for(self._reader.readline(), 60))
        assert answer["id"] == 7
        return answer


@contextlib.asynccontextmanager
async def listening(hub: RunningHub, folder: Path) -> AsyncIterator[Path]:
    """A control socket; its path."""
    control = ControlSocket(hub.hub_app, Operations(hub.hub_app, lambda: None))
    await control.listen(folder / "control.sock")
    try:
        yield folder / "control.sock"
    finally:
        await control.close()


@contextlib.asynccontextmanager
async def terminal(hub: RunningHub, folder: Path, peer: ControlPeer = AT_A_TERMINAL) -> AsyncIterator[Terminal]:
    async with listening(hub, folder) as path:
        reader, writer = await asyncio.open_unix_connection(path)
        try:
            here = Terminal(reader, writer)
            said = await here.ask("interlock/hello", {"role": "control", "peer": msgspec.to_builtins(peer)})
            assert said["result"]["principal"]["kind"] == "person"
            yield here
        finally:
            writer.close()


async def closed_unheard(path: Path) -> bool:
    """Whether a peer's hello is not even answered."""
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        with contextlib.suppress(ConnectionError):
            writer.write(HELLO)
            return await asyncio.wait_for(reader.readline(), 60) == b""
        return True
    finally:
        writer.close()


async def test_t15_the_control_socket_hears_nobody_but_its_own_user(
    hub: RunningHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel names the peer. Here it names another user, or says that the peer is gone."""
    uid: int | None = os.getuid()

    def of_the_kernel(self: TransportSocket, level: int, option: int, *size: int) -> bytes:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_PEERCRED)
        if uid is None:
            raise OSError(errno.ENOTCONN, "nobody")
        return struct.pack("3i", os.getpid(), uid, uid)

    async with listening(hub, tmp_path) as path:
        monkeypatch.setattr(socket, "SO_PEERCRED", 17, raising=False)
        monkeypatch.setattr(TransportSocket, "getsockopt", of_the_kernel)
        assert not await closed_unheard(path)
        for uid in (os.getuid() + 1, 0 if os.getuid() else 65534, None):
            assert await closed_unheard(path), uid


async def test_a_connection_that_follows_something_is_told_that_it_follows_nothing_else(
    hub: RunningHub, tmp_path: Path
) -> None:
    async with terminal(hub, tmp_path) as here:
        assert "result" in await here.ask("hub/approvals.list", {"follow": True})
        for name in ("approvals.list", "logs"):
            error = (await here.ask(f"hub/{name}", {"follow": True}))["error"]
            assert "already" in error["message"]
            assert "result" in await here.ask(f"hub/{name}", {}), "to ask without following goes on"


async def test_no_line_is_lost_between_a_long_answer_and_what_follows_it(hub: RunningHub, tmp_path: Path) -> None:
    logs, numbers = hub.hub_app.logs, itertools.count(1)

    async def write() -> None:
        while True:  # One line in each turn of the loop, also in those that encode the answer.
            logs.add("noisy", "stderr", f"{next(numbers)} of them")
            await asyncio.sleep(0)

    for _ in range(400):
        logs.add("noisy", "stderr", f"{next(numbers)} of them")
    async with listening(hub, tmp_path) as path:
        reader, writer = await asyncio.open_unix_connection(path, limit=1 << 24)
        writer.write(HELLO + b'{"jsonrpc":"2.0","id":2,"method":"hub/logs","params":{"follow":true,"lines":400}}\n')
        await asyncio.wait_for(reader.readline(), 60)
        writing = asyncio.ensure_future(write())
        answer = json.loads(await asyncio.wait_for(reader.readline(), 60))["result"]
        first = {"server": ""}
        while first["server"] != "noisy":
            first = json.loads(await asyncio.wait_for(reader.readline(), 60))["params"]
        writing.cancel()
        writer.close()
    last = [each["text"] for each in answer["lines"] if each["server"] == "noisy"][-1]
    assert int(first["text"].split()[0]) == int(last.split()[0]) + 1


async def test_the_control_socket_has_a_bound_of_connections(
    hub: RunningHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.web.control.MAX_CONNECTIONS", 3)
    async with listening(hub, tmp_path) as path, contextlib.AsyncExitStack() as stack:
        for _ in range(3):
            reader, writer = await asyncio.open_unix_connection(path)
            stack.callback(writer.close)
            writer.write(HELLO)
            assert b"result" in await asyncio.wait_for(reader.readline(), 60)
        assert await closed_unheard(path)
        writer.write(CALL_STATUS)
        assert b"result" in await asyncio.wait_for(reader.readline(), 60), "those before it go on"


async def test_the_control_socket_answers_every_operation_that_raises(
    hub: RunningHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with terminal(hub, tmp_path) as here:
        for operation in ALL:
            monkeypatch.setattr("interlock.hub.admin.operations.OPERATIONS", broken(operation))
            error = (await here.ask(f"hub/{operation.name}", sample(operation)))["error"]
            assert error["data"]["name"] == "INTERNAL_ERROR", operation.name


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("hub/audit.search", {"before": 10**40}, "INVALID_PARAMS"),
        ("hub/audit.search", {"before": -1}, "INVALID_PARAMS"),
        ("hub/audit.show", {"seq": 2**63}, "INVALID_PARAMS"),
        ("hub/logs", {"lines": 10**9}, "INVALID_PARAMS"),
        ("hub/find", {"query": "x", "max_results": 0}, "INVALID_PARAMS"),
        ("hub/call", {"name": "busy__echo", "timeout_s": -1}, "INVALID_PARAMS"),
        ("hub/call", {"name": "busy__echo", "arguments": []}, "INVALID_PARAMS"),
        ("hub/status", {"surprise": 1}, "INVALID_PARAMS"),
        ("hub/keys.revoke", {"agent": 5}, "INVALID_PARAMS"),
        ("hub/nothing", {}, "METHOD_NOT_FOUND"),
        ("nothing", {}, "METHOD_NOT_FOUND"),
        ("hub/approvals.answer", {"id": "x", "answer": "once"}, "PERSON_REQUIRED"),
    ],
)
async def test_the_control_socket_answers_what_means_nothing(
    hub: RunningHub, tmp_path: Path, method: str, params: object, name: str
) -> None:
    async with terminal(hub, tmp_path) as here:
        assert (await here.ask(method, params))["error"]["data"]["name"] == name


async def test_a_name_that_stands_twice_is_refused(hub: RunningHub) -> None:
    operations = Operations(hub.hub_app, lambda: None)
    with pytest.raises(Fault, match="duplicate member"):
        await operations.perform(operations.hub_user, "keys.create", b'{"agent":"a","agent":"b"}')
    with pytest.raises(Fault):
        await operations.perform(operations.hub_user, "keys.create", b'{"agent":"a"')


async def test_operations_without_an_address_answer_what_their_structs_say(hub: RunningHub, tmp_path: Path) -> None:
    """`operate` holds every result to its struct; this performs those that no other test of the admin API does."""
    assert (await hub.operate("logs"))["lines"] is not None
    assert {tool["name"] for tool in (await hub.operate("tools", server="busy"))["tools"]} >= {"busy__echo"}
    called = await hub.operate("call", name="busy__echo", arguments={"text": "a"})
    assert called["result"]["content"][0]["text"] == "a"
    assert (await hub.operate("find", query="say it again"))["tools"]
    assert (await hub.operate("find.forget"))["forgotten"] >= 0
    assert (await hub.operate("budget"))["servers"][0]["id"] == "busy"
    assert (await hub.operate("audit.export", file=str(tmp_path / "log")))["records"] > 0
    assert (await hub.operate("backup", file=str(tmp_path / "backup")))["file"]
    assert (await hub.operate("confirm", path=str(tmp_path / "x.toml"), hash="0"))["confirmed"] is True
    assert (await hub.operate("stop"))["stopping"] is True
    written = {entry.record.name for entry in await entries(hub, event=OPERATED)}
    assert written >= {"find.forget", "audit.export", "backup", "stop"}


def test_the_words_of_rights_are_those_of_keys() -> None:
    from interlock.hub.admin.operation import Right
    from interlock.protocols.registry.permissions import ALONE

    assert {*get_args(Right)} - {OWNER} <= ALONE
