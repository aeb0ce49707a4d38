"""Attacks on what is kept and told: secrets that would leak, lines that would forge, records that would vanish."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import msgspec

from hub.committed import CommittedRecords
from hub.running_hub import RawClient, RunningHub, child, running_hub, until
from hub.test_validators import TEXT, scripted, tool
from interlock.config.settings import AgentSettings, HubSettings, ServerSettings

SECRETS = {
    "a GitHub token": "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8",
    "an AWS key": "AKIA" + "IOSFODNN7EXAMPLQ",
    "a bearer": "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "a password in an address": "https://ada:Tr0ub4dor-and-3@db.example.com/x",
    "a private key": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\n-----END PRIVATE KEY-----",
}
TELLING = {
    "a bearer": "dozjgNryP4J3jVmNHl0w5N",
    "a password in an address": "Tr0ub4dor",
    "a private key": "MIIEvQIBADAN",
}
"""The part that must not be seen, where it is not all of it."""


async def test_t23_secrets_are_in_no_record_log_question_metric_or_file(tmp_path: Path) -> None:
    script = {"tools": [tool("say", text=TEXT), tool("ask", text=TEXT)]}
    agents = {"a": AgentSettings(ask=("s__ask",))}
    settings = HubSettings(metrics="open")
    async with running_hub(tmp_path, {"s": scripted(tmp_path, script)}, hub=settings, agents=agents) as hub:
        key = hub.key("a")
        client = RawClient(hub.url + "/mcp", key)
        told: list[bytes] = []
        asking = []
        for secret in SECRETS.values():
            await client.modern("tools/call", {"name": "s__say", "arguments": {"text": secret}})
            await client.modern("tools/call", {"name": "s__say", "arguments": {"text": 1, "password": secret}})
            await RawClient(hub.url + "/mcp", secret.partition("\n")[0]).modern("tools/list")
            asking.append(asyncio.ensure_future(_ask(client, secret)))
        await until(lambda: hub.hub_app.inbox.open_count >= len(SECRETS))
        told += [msgspec.json.encode(decision) for decision in hub.hub_app.inbox.all(only_open=True)]
        told += [line.text.encode() for line in hub.hub_app.logs.tail(None, 1000)]
        told.append((await RawClient(hub.url + "/metrics").send("GET"))[2])
        records = CommittedRecords(hub.hub_app.bus)
        await hub.hub_app.recorder.flushed()
        for one in asking:
            one.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    told += map(msgspec.json.encode, records)
    told += [file.read_bytes() for file in (tmp_path / "home").rglob("*") if file.is_file()]
    everything = b"\n".join(told)
    assert key.encode() not in everything
    for name, secret in SECRETS.items():
        assert TELLING.get(name, secret).encode() not in everything, name


async def _ask(client: RawClient, secret: str) -> Any:
    return await client.modern("tools/call", {"name": "s__ask", "arguments": {"text": secret}})


FORGING = [
    'x\n{"event":"TOOL_EXECUTED","actor":"root"}',
    "x\r\nHTTP/1.1 200 OK\r\n\r\n",
    "x\x1b[2J\x1b[31mall is well",
    "x\u2028y\u2029z",
    'x","actor":"root',
    "x\x00y\x85z",
]


async def test_t25_whatever_is_said_one_event_is_one_line_of_json(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"s": scripted(tmp_path, {"tools": [tool("say", text=TEXT)]})}) as hub:
        client = RawClient(hub.url + "/mcp")
        for text in FORGING:
            await client.modern("tools/call", {"name": "s__say", "arguments": {"text": text}})
            await client.legacy("tools/call", {"name": f"s__{text}", "arguments": {}})
            await RawClient(hub.url + "/mcp").modern(
                "resources/read", {"uri": f"interlock://s/{text}"}, **{"mcp-name": "x"}
            )
        old = RawClient(hub.url + "/mcp")
        await old.initialize()
        for text in FORGING:
            await old.legacy("tools/call", {"name": text, "arguments": {text: text}})
            await old.legacy("resources/read", {"uri": text})
        out = tmp_path / "export.jsonl"
        count = await hub.operate("audit.export", file=str(out))
        lines = out.read_bytes().split(b"\n")
        assert lines.pop() == b""
        assert len(lines) == count["records"] >= 3 * len(FORGING)
        for line in lines:
            record = json.loads(line)
            assert isinstance(record, dict)
            assert b"\x1b" not in line
            assert b"\r" not in line
        assert not any(record.get("actor") == "root" for record in map(json.loads, lines))


async def test_t25_what_a_server_writes_to_the_log_stays_on_its_lines(tmp_path: Path) -> None:
    script = "import sys; sys.stderr.write(sys.argv[1]); sys.stderr.flush(); print('\\x1b[2J not a message')"
    written = "fine\x1b[2J\x1b[31mall is well\x85\u2028hub: approved\rhub: approved\n"
    server = ServerSettings(command=(sys.executable, "-c", script, written), env={"PYTHONIOENCODING": "utf-8"})
    async with running_hub(tmp_path, {"h": server}, wait=False) as hub:
        await until(lambda: any("all is well" in line.text for line in hub.hub_app.logs.tail("h", 1000)))
        for line in hub.hub_app.logs.tail(None, 1000):
            assert line.text.isprintable(), line.text


async def test_t34_whatever_is_done_to_the_record_is_found_and_refusals_are_in_it(tmp_path: Path) -> None:
    async def run(hub: RunningHub) -> None:
        client = RawClient(hub.url + "/mcp", hub.key("a"))
        for _ in range(5):
            await client.modern("tools/call", {"name": "busy__echo", "arguments": {"text": "x"}})
        await client.modern("tools/call", {"name": "busy__echo", "arguments": {"text": 1}})
        await hub.deny("a", "busy")
        await client.modern("tools/call", {"name": "busy__echo", "arguments": {"text": "x"}})

    async def verified(hub: RunningHub) -> Any:
        return await hub.operate("audit.verify")

    servers = {"busy": child("busy_server.py")}
    async with running_hub(tmp_path, servers) as hub:
        entries = CommittedRecords(hub.hub_app.bus)
        await run(hub)
        await hub.hub_app.recorder.flushed()
        assert [(entry.gate, entry.result) for entry in entries if entry.gate] == [
            ("schema", "BLOCKED"),
            ("access", "BLOCKED"),
        ]
        assert (await verified(hub))["sound"]
    home = tmp_path / "home"
    shutil.copytree(home, tmp_path / "clean")
    for attack in (
        "UPDATE records SET body = replace(body, 'TOOL_BLOCKED', 'TOOL_EXECUTED')",
        "DELETE FROM records WHERE seq = 4",
        "DELETE FROM records WHERE seq > 5",
        "UPDATE records SET seq = CASE seq WHEN 3 THEN -4 WHEN 4 THEN 3 ELSE seq END",
    ):
        shutil.rmtree(home)
        shutil.copytree(tmp_path / "clean", home)
        with sqlite3.connect(home / "hub.db") as database:
            assert database.execute(attack).rowcount > 0, attack
        database.close()
        async with running_hub(tmp_path, servers, wait=False) as hub:
            assert not (await verified(hub))["sound"], attack
