"""Entries of the store that do not match their checksum: each permits nothing, and what may be a denial denies all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from interlock.config.settings import ServerSettings
from interlock.hub.admin.backups import put_back
from interlock.hub.auth.grants import GRANTS
from interlock.hub.auth.keys import KEYS
from interlock.hub.auth.principals import local_person
from interlock.server import Server
from interlock.store import Collection, Store
from interlock.store.database import Database

from .running_hub import RawClient, RunningHub, running_hub, until


async def damage(store: Store, collection: Collection[Any], like: str) -> None:
    """Alter a stored entry behind the store's back, as a later change that every node reads."""
    spoil = (
        "UPDATE documents SET body = replace(body, '\"agent', '\"agenu'), revision = (SELECT value FROM counters"
        " WHERE name = 'revision') WHERE collection = ? AND body LIKE ?"
    )

    def write(database: Database) -> None:
        database.execute("UPDATE counters SET value = value + 1 WHERE name = 'revision'")
        database.execute(spoil, (collection.name, like))

    await store.commit(write)


async def echoed(hub: RunningHub, key: str) -> str:
    answer = await RawClient(hub.url + "/mcp", key).modern("tools/call", {"name": "notes__look", "arguments": {}})
    error = answer.get("error")
    return str(error["data"]["name"]) if error else str(answer["result"]["content"][0]["text"])


async def test_a_damaged_key_is_refused_alone_and_a_damaged_grant_refuses_all(tmp_path: Path) -> None:
    notes = Server("notes")

    @notes.tool
    def look() -> str:
        """Look at the notes."""
        return "milk"

    async with notes.http() as served:
        servers = {"notes": ServerSettings(url=served.url)}
        async with running_hub(tmp_path, servers) as hub:
            keys = {name: await hub.new_key(name) for name in ("ann", "bob", "cat")}
            await hub.allow("ann", "notes")
            assert [await echoed(hub, key) for key in keys.values()] == ["milk"] * 3
            await hub.hub_app.store.backup(tmp_path / "whole.backup")
            await damage(hub.hub_app.store, KEYS, '%"bob"%')
            await until(lambda: hub.hub_app.warnings)
            assert [await echoed(hub, key) for key in keys.values()] == ["milk", "AUTH_REQUIRED", "milk"]
        async with running_hub(tmp_path, servers) as hub:
            assert [await echoed(hub, key) for key in keys.values()] == ["milk", "AUTH_REQUIRED", "milk"]
            (warning,) = (await hub.operate("status"))["warnings"]
            assert warning["message"].startswith("entries of keys cannot be read (")
            assert "interlock restore" in warning["hint"]
            await damage(hub.hub_app.store, GRANTS, '%"ann"%')
            await until(lambda: len(hub.hub_app.warnings) == 2)
        async with running_hub(tmp_path, servers) as hub:
            assert await echoed(hub, keys["cat"]) == "SERVER_NOT_READY", "it may be a denial of anybody"
            shown = str((await hub.operate("status"))["warnings"])
            assert "entries of grants cannot be read" in shown
            assert "one may be a denial" in shown
            config, home = hub.hub_app.config, hub.hub_app.home
        assert (await put_back(config, home, tmp_path / "whole.backup", local_person("tester"))).sound
        async with running_hub(tmp_path, servers) as hub:
            assert [await echoed(hub, key) for key in keys.values()] == ["milk"] * 3
