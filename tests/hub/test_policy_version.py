"""The policy version is the store's revision: it moves with what authorizes, not with lists, and outlives restarts."""

from __future__ import annotations

from pathlib import Path

from interlock.hub.auth.principals import Principal
from interlock.store import documents

from .running_hub import RawClient, RunningHub, child, running_hub, until

ADA = Principal("ada", "person")
BUSY = {"busy": child("busy_server.py")}


async def test_a_change_of_the_catalog_does_not_alter_the_policy_version(tmp_path: Path) -> None:
    async with running_hub(tmp_path, BUSY) as hub:
        policy, catalog = hub.hub_app.policy_version.number, hub.hub_app.catalog.generation
        plans = hub.hub_app.plan_generation.number
        await RawClient(hub.url + "/mcp").modern("tools/call", {"name": "busy__grow", "arguments": {"name": "fresh"}})
        await until(lambda: hub.hub_app.catalog.generation > catalog)
        assert hub.hub_app.policy_version.number == policy
        assert hub.hub_app.plan_generation.number > plans, "plans are made again all the same"


async def test_each_change_of_the_policy_moves_the_version_to_its_revision(tmp_path: Path) -> None:
    async with running_hub(tmp_path, BUSY) as hub:
        before = hub.hub_app.policy_version.number
        await hub.allow("a", "busy")
        granted = hub.hub_app.policy_version.number
        assert before < granted == await revision(hub)
        await hub.hub_app.keys.create("ci")
        made = hub.hub_app.policy_version.number
        assert granted < made == await revision(hub)
        catalog = hub.hub_app.catalog.generation
        await hub.hub_app.keys.revoke("ci")
        assert made < hub.hub_app.policy_version.number <= await revision(hub)
        assert hub.hub_app.catalog.generation == catalog


async def test_the_version_is_the_same_after_a_restart_though_the_last_change_was_a_purged_deletion(
    tmp_path: Path,
) -> None:
    async with running_hub(tmp_path, {}) as hub:
        for name in ("one", "two"):
            await hub.hub_app.keys.create(name)
        for name in ("one", "two"):
            await hub.hub_app.keys.revoke(name)
        version = hub.hub_app.policy_version.number
        await hub.hub_app.store.commit(lambda database: documents.forget_deleted(database, 2**53))
    async with running_hub(tmp_path, {}) as again:
        assert again.hub_app.policy_version.number == version > 0


async def revision(hub: RunningHub) -> int:
    return await hub.hub_app.store.read(lambda database: documents.counter(database, "revision"))
