"""T31: keys and grants that are changed by several at once, or by a narrowed administrator."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from cli.conftest import User, user  # noqa: F401 - a fixture
from hub.running_hub import RawClient, child, running_hub
from interlock.hub.auth.grants import GRANTS, Grant, Grants, grant_id
from interlock.hub.auth.keys import KEY_USES, KEYS, Keys
from interlock.protocols.mgp.access import Permission
from interlock.store import Conflict, Store

pytestmark = pytest.mark.anyio


def make_home(home: Path) -> None:
    """The home of a hub, with the secret that all hubs of one installation have."""
    home.mkdir(exist_ok=True)
    (home / "keys.secret").write_bytes(bytes(range(100, 132)))
    (home / "keys.secret").chmod(0o600)


async def opened(where: str, home: Path) -> tuple[Store, Keys]:
    make_home(home)
    store = await Store.open(where, [KEYS, KEY_USES])
    keys = Keys(home)
    await keys.start(store)
    return store, keys


async def test_t31_two_rotations_at_once_leave_one_key(where: str, tmp_path: Path) -> None:
    (one, here), (two, there) = await opened(where, tmp_path / "one"), await opened(where, tmp_path / "two")
    await here.create("ci")
    for _ in range(5):
        results = await asyncio.gather(here.rotate("ci"), there.rotate("ci"), return_exceptions=True)
        assert all(isinstance(result, str | Conflict) for result in results), results
        assert any(isinstance(result, str) for result in results)
        assert len(await one.find(KEYS, principal="ci")) == 1
    await one.close()
    await two.close()


async def test_t31_a_revocation_also_ends_the_key_of_a_rotation_at_the_same_time(where: str, tmp_path: Path) -> None:
    (one, here), (two, there) = await opened(where, tmp_path / "one"), await opened(where, tmp_path / "two")
    for _ in range(5):
        await here.create("ci")
        rotated, revoked = await asyncio.gather(here.rotate("ci"), there.revoke("ci"), return_exceptions=True)
        left = await one.find(KEYS, principal="ci")
        assert left == [], (rotated, revoked)
    await one.close()
    await two.close()


async def test_t31_a_revocation_ends_a_grant_that_another_hub_has_just_made_and_no_denial(tmp_path: Path) -> None:
    stores = [await Store.open(tmp_path / "hub.db", [GRANTS]) for _ in range(2)]
    here, there = Grants(), Grants()
    for grants, store in zip((here, there), stores, strict=True):
        await grants.start(store, lambda: None)

    async def put(permission: Permission) -> None:
        await here.put(Grant("tool_grant", "ci", "s", permission, "t", id=grant_id("ci", "s", "t", permission)))

    await put("allow")
    assert await there.revoke("tool_grant", "ci", "s", "t") == 1
    assert await stores[0].find(GRANTS) == []
    await put("deny")
    known = len(there.at("ci", "s", "t"))  # None, unless the other hub has read it by now.
    assert await there.revoke("tool_grant", "ci", "s", "t") == known
    assert len(await stores[0].find(GRANTS)) == 1 - known
    for store in stores:
        await store.close()


async def test_t31_a_narrowed_administrator_grants_only_what_it_may_call(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py"), "other": child("busy_server.py")}) as hub:
        rights = ("admin_read", "admin_write", "invoke:busy__echo")
        admin = RawClient(hub.url + "/mcp", await hub.new_key("ops", "admin", permissions=rights))
        await hub.new_key("ci")

        async def give(server: str, tool: str | None, permission: str = "allow") -> str:
            kind = "server_grant" if tool is None else "tool_grant"
            params = {"entry_type": kind, "agent_id": "ci", "server_id": server, "permission": permission}
            answer = await admin.modern("mgp/access/grant", params | ({"tool_name": tool} if tool else {}))
            return "ok" if "result" in answer else str(answer["error"]["data"]["name"])

        async def take(server: str, tool: str) -> str:
            params = {"entry_type": "tool_grant", "agent_id": "ci", "server_id": server, "tool_name": tool}
            answer = await admin.modern("mgp/access/revoke", params)
            return "ok" if "result" in answer else str(answer["error"]["data"]["name"])

        assert await give("busy", "echo") == "ok"
        assert await give("busy", "add") == "PERMISSION_DENIED"
        assert await give("busy", None) == "PERMISSION_DENIED"
        assert await give("other", "echo") == "PERMISSION_DENIED"
        assert await give("other", "echo", "deny") == "ok", "taking away is always allowed"
        assert await take("other", "echo") == "PERMISSION_DENIED", "without the denial, the agent could call again"
        assert await take("busy", "echo") == "ok"


def test_t31_several_connects_at_once_leave_the_one_key_that_is_in_the_file(user: User) -> None:  # noqa: F811
    user.configure()
    user.start_hub()
    try:
        processes = [user.fork("connect", "cursor", "--json") for _ in range(4)]
        for process in processes:
            process.communicate(timeout=120)
        assert [process.returncode for process in processes] == [0] * 4
        keys = json.loads(user.run("keys", "list", "--json").output)["keys"]
        (key,) = [key for key in keys if key["principal"] == "cursor"]
        written = (user.root / ".cursor" / "mcp.json").read_text()
        assert key["prefix"] in written
    finally:
        user.run("down")
