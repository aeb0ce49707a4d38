"""Operations on a thousand servers take many short turns of the loop, and a changed file is read once."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec

from interlock.config.load import load
from interlock.config.settings import Config, Server
from interlock.hub.admin.configuration import ConfigurationOperations
from interlock.hub.admin.health import HealthOperations, ShowHealth
from interlock.hub.app import HubApp
from interlock.hub.auth.principals import Principal
from interlock.hub.handlers.discovery_methods import ListServers
from interlock.process.turns import AT_ONCE, encode_in_turns
from interlock.protocols.mcp.results import own_result
from interlock.web.metrics.gather import gather

SERVERS = 10 * AT_ONCE
MANY = 8
"""Of ten turns; the counter begins a turn late."""
OPERATOR = Principal("operator", "person")


class Rows(msgspec.Struct, rename="camel", omit_defaults=True):
    first_rows: list[dict[str, int]]
    few: list[int] = []
    word: str = ""


class Turns:
    """Counts the turns of the loop while some work is done."""

    def __init__(self) -> None:
        self.count = 0

    async def __aenter__(self) -> Turns:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.count += 1


async def test_a_long_answer_is_encoded_in_many_turns_to_the_same_bytes() -> None:
    rows = Rows([{"n": number} for number in range(SERVERS + 1)], word="x")
    async with Turns() as turns:
        assert await encode_in_turns(rows) == msgspec.json.encode(rows)
    assert turns.count >= MANY
    short = Rows([{"n": 1}], few=[1, 2])
    assert await encode_in_turns(short) == msgspec.json.encode(short)


def test_an_own_result_may_name_thousands_of_servers() -> None:
    result = msgspec.json.encode({"servers": {f"s{number}": {"state": "connected"} for number in range(5_000)}})
    assert msgspec.json.decode(own_result(result)) == {"resultType": "complete", **msgspec.json.decode(result)}


async def test_the_lists_of_servers_are_made_in_many_turns(tmp_path: Path) -> None:
    servers = {f"s{number}": Server(url="http://127.0.0.1:1/mcp", start="on-demand") for number in range(SERVERS)}
    hub = HubApp(Config(servers=servers), tmp_path)
    await hub.start()
    try:
        async with Turns() as turns:
            health = await HealthOperations(hub).show(OPERATOR, ShowHealth(), "")
        assert (len(health.servers), turns.count >= MANY) == (SERVERS, True)
        async with Turns() as turns:
            found = await hub.discovery.list(OPERATOR, ListServers())
        assert (len(found.servers), turns.count >= MANY) == (SERVERS, True)
        async with Turns() as turns:
            gathered = await gather(hub, None)
        assert len([*gathered.values["interlock_server_tools"]]) == SERVERS
        assert turns.count >= MANY
    finally:
        await hub.stop()


async def test_a_file_that_a_command_had_read_is_not_read_once_more(tmp_path: Path) -> None:
    file = tmp_path / "interlock.toml"
    file.write_text("[hub]\n")
    hub = HubApp(load(file, home=tmp_path).config, tmp_path)
    configuration = ConfigurationOperations(hub, lambda: None)
    assert configuration.changed_since
    await configuration.look()
    assert not configuration.changed_since
    file.write_text('[hub]\nmode = "observe"\n')
    os.utime(file, ns=(1, 1))
    assert configuration.changed_since
    await configuration.look()
    assert not configuration.changed_since
