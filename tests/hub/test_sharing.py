"""Callers that share an upstream, and data that never crosses from one caller to another."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from interlock.config.settings import (
    AgentSettings,
    HubSettings,
    LimitSettings,
    ProfileSettings,
    ServerSettings,
    TimeoutSettings,
)

from .busy_server import busy_server
from .legacy_client import LegacyClient, answers
from .running_hub import RawClient, child, messages, running_hub, text_of, until

ALL: dict[str, object] = {"sampling": {}, "elicitation": {}, "roots": {}}


async def test_a_server_turns_to_the_very_client_whose_call_it_serves(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py", era="legacy")}) as hub:
        legacy_clients = [
            LegacyClient(hub.url + "/mcp", answers(name), hub.key(name)) for name in ("ada", "bob", "cyd")
        ]
        await asyncio.gather(*(legacy_client.initialize(ALL) for legacy_client in legacy_clients))

        async def ask(legacy_client: LegacyClient, name: str) -> None:
            assert name in text_of(await legacy_client.call("busy__ask_name"))
            assert text_of(await legacy_client.call("busy__ask_model")) == f"hello from {name}"
            assert text_of(await legacy_client.call("busy__ask_roots")) == f"file:///{name}"

        await asyncio.gather(
            *(
                ask(legacy_client, name)
                for legacy_client, name in zip(legacy_clients, ("ada", "bob", "cyd"), strict=True)
            )
        )
        for legacy_client, name in zip(legacy_clients, ("ada", "bob", "cyd"), strict=True):
            others = {"ada", "bob", "cyd"} - {name}
            assert not any(other in json.dumps(legacy_client.heard) for other in others)


async def test_callers_with_nothing_to_answer_share_one_process_and_others_get_their_own(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py", era="legacy")}) as hub:
        plain, also_plain = RawClient(hub.url + "/mcp", hub.key("a")), RawClient(hub.url + "/mcp", hub.key("b"))
        rich = RawClient(hub.url + "/mcp", hub.key("c"))
        await plain.initialize()
        await also_plain.initialize()
        await rich.initialize(ALL)
        call = {"name": "busy__pid", "arguments": {}}
        pids = [text_of(await client.legacy("tools/call", call)) for client in (plain, also_plain, rich)]
        assert pids[0] == pids[1] != pids[2]
        assert text_of(await rich.legacy("tools/call", call)) == pids[2]


async def test_a_private_process_ends_with_its_session(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py", era="legacy")}) as hub:
        rich = RawClient(hub.url + "/mcp")
        await rich.initialize(ALL)
        pid = int(text_of(await rich.legacy("tools/call", {"name": "busy__pid", "arguments": {}})))
        status, _, _ = await rich.send("DELETE")
        assert status in (200, 202, 204)
        await until(lambda: ended(pid))


def ended(pid: int) -> bool:
    """Whether a process is over; it may go while it is looked at."""
    try:
        return "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]
    except (FileNotFoundError, ProcessLookupError):
        return True


async def test_one_principal_or_one_session_to_a_process_where_the_operator_says_so(tmp_path: Path) -> None:
    servers = {
        "mine": child("busy_server.py", era="legacy", share="principal"),
        "ours": child("busy_server.py", era="legacy", share="session"),
    }
    async with running_hub(tmp_path, servers) as hub:
        key = hub.key("a")
        one, two = RawClient(hub.url + "/mcp", key), RawClient(hub.url + "/mcp", key)
        other = RawClient(hub.url + "/mcp", hub.key("b"))
        for client in (one, two, other):
            await client.initialize()

        async def pid(client: RawClient, server: str) -> str:
            return text_of(await client.legacy("tools/call", {"name": f"{server}__pid", "arguments": {}}))

        assert await pid(one, "mine") == await pid(two, "mine") != await pid(other, "mine")
        assert len({await pid(one, "ours"), await pid(two, "ours"), await pid(other, "ours")}) == 3


async def test_private_connections_are_bounded_and_one_in_use_is_never_taken_away(tmp_path: Path) -> None:
    settings = HubSettings(
        limits=LimitSettings(private_sessions_per_server=1), timeouts=TimeoutSettings(start_s=120, tool_s=60)
    )
    async with busy_server().http() as address:
        servers = {"busy": ServerSettings(url=address.url, era="legacy", share="principal")}
        async with running_hub(tmp_path, servers, hub=settings) as hub:
            key = hub.key("a")
            a, also_a, b = (RawClient(hub.url + "/mcp", each) for each in (key, key, hub.key("b")))
            hanging = asyncio.create_task(a.modern("tools/call", {"name": "busy__hang", "arguments": {"mark": "a"}}))
            begun = {"name": "busy__begun_marks", "arguments": {}}
            while text_of(await also_a.modern("tools/call", begun)) != "a":
                pass
            echo = {"name": "busy__echo", "arguments": {"text": "hello"}}
            refused = await b.modern("tools/call", echo)
            assert "1 private sessions are in use" in json.dumps(refused)
            assert not hanging.done()
            hanging.cancel()
            await asyncio.wait([hanging])
            await until(lambda: hub.hub_app.hub.open_calls == 0)
            assert text_of(await b.modern("tools/call", echo)) == "hello", "an idle connection gives way"


async def test_a_principal_with_many_connections_takes_none_from_one_with_fewer(tmp_path: Path) -> None:
    settings = HubSettings(
        limits=LimitSettings(private_sessions_per_server=3), timeouts=TimeoutSettings(start_s=120, tool_s=60)
    )
    async with running_hub(tmp_path, {"busy": child("busy_server.py", era="legacy")}, hub=settings) as hub:

        async def opened(who: str) -> RawClient:
            client = RawClient(hub.url + "/mcp", keys[who])
            await client.initialize(ALL)
            return client

        async def pid(client: RawClient) -> str:
            return text_of(await client.legacy("tools/call", {"name": "busy__pid", "arguments": {}}))

        keys = {who: hub.key(who) for who in ("ada", "bob", "eve")}
        ada = await opened("ada")
        first = await pid(ada)
        many = [await opened("eve") for _ in range(6)]
        assert len({await pid(each) for each in many}) == 6
        assert await pid(ada) == first, "an idle connection stays, as its owner has no other"
        # One that has none takes a place of the one that has most.
        await pid(await opened("bob"))
        assert await pid(ada) == first
        owners = [found.owner.audience for found in hub.hub_app.upstreams["busy"].pool.private.open_connections()]
        assert len(owners) == 3


async def test_log_messages_of_a_shared_session_reach_no_client(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py", era="legacy")}) as hub:
        quiet = RawClient(hub.url + "/mcp")
        await quiet.initialize()
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "busy__report", "arguments": {}}}
        _, _, answer = await quiet.post(msgspec.json.encode(body))
        assert b"notifications/message" not in answer
        assert any("step 1" in line.text for line in hub.hub_app.logs.tail("busy", 100))


async def test_whoever_sets_a_level_gets_the_messages_of_their_own_calls(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py", era="legacy")}) as hub:
        curious = RawClient(hub.url + "/mcp")
        await curious.initialize()
        assert (await curious.legacy("logging/setLevel", {"level": "debug"}))["result"] == {}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "busy__report", "arguments": {}}}
        _, _, answer = await curious.post(msgspec.json.encode(body))
        heard = [m["params"]["data"] for m in messages(answer) if m.get("method") == "notifications/message"]
        assert len(heard) == 3


async def test_a_session_of_one_principal_is_unknown_to_another(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        owner = RawClient(hub.url + "/mcp", hub.key("owner"))
        await owner.initialize()
        thief = RawClient(hub.url + "/mcp", hub.key("thief"))
        thief.session = owner.session
        stolen = await thief.post(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
        thief.session = "made-up"
        unknown = await thief.post(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
        assert stolen[0] == unknown[0] == 404
        assert stolen[2] == unknown[2]
        thief.session = owner.session
        assert (await thief.send("DELETE"))[0] == 404
        assert "result" in await owner.legacy("tools/list")


@pytest.mark.parametrize(
    ("credential", "status"),
    [
        ("Bearer wrong", 401),
        ("Bearer ", 401),
        ("Basic YWRtaW46YWRtaW4=", 401),
        ("garbage", 401),
        ("", 401),
    ],
)
async def test_a_wrong_credential_is_refused_and_never_taken_for_none(
    tmp_path: Path, credential: str, status: int
) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, wait=False) as hub:
        client = RawClient(hub.url + "/mcp")
        for path in ("/mcp", "/servers/busy/mcp"):
            client.path = path
            got = await client.send("POST", b'{"jsonrpc":"2.0","id":1,"method":"ping"}', {"authorization": credential})
            assert got[0] == status
            assert "bearer" in got[1]["www-authenticate"].lower()


async def test_without_anonymous_callers_a_key_is_needed_and_a_revoked_one_is_worthless_at_once(tmp_path: Path) -> None:
    settings = HubSettings(anonymous=False, timeouts=TimeoutSettings(start_s=30))
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings, wait=False) as hub:
        nobody = RawClient(hub.url + "/mcp")
        assert (await nobody.post(b'{"jsonrpc":"2.0","id":1,"method":"ping"}'))[0] == 401
        known = RawClient(hub.url + "/mcp", await hub.new_key("known"))
        assert "result" in await known.modern("tools/list")
        await hub.hub_app.keys.revoke("known")
        assert (await known.post(b'{"jsonrpc":"2.0","id":1,"method":"ping"}'))[0] == 401


async def test_an_agent_bound_to_a_profile_sees_nothing_else_at_any_address(tmp_path: Path) -> None:
    servers = {"busy": child("busy_server.py"), "other": child("busy_server.py")}
    profiles = {"work": ProfileSettings(tools=("busy__echo",)), "all": ProfileSettings()}
    async with running_hub(
        tmp_path, servers, profiles=profiles, agents={"bound": AgentSettings(profile="work")}
    ) as hub:
        key = hub.key("bound")
        listed = (await RawClient(hub.url + "/mcp", key).modern("tools/list"))["result"]["tools"]
        assert [tool["name"] for tool in listed] == ["busy__echo"]
        call = {"name": "busy__add", "arguments": {"a": 1}}
        assert (await RawClient(hub.url + "/mcp", key).modern("tools/call", call))["error"]["data"][
            "name"
        ] == "TOOL_NOT_FOUND"
        bare = await RawClient(hub.url + "/servers/busy/mcp", key).modern("tools/list")
        assert [tool["name"] for tool in bare["result"]["tools"]] == ["echo"]
        assert (await RawClient(hub.url + "/servers/other/mcp", key).modern("tools/list"))["result"]["tools"] == []
        for path in ("/profiles/all/mcp", "/profiles/none/mcp", "/servers/none/mcp"):
            assert (await RawClient(hub.url + path, key).post(b'{"jsonrpc":"2.0","id":1,"method":"ping"}'))[0] == 404


async def test_many_callers_with_the_same_ids_each_get_their_own_answers(tmp_path: Path) -> None:
    """The full count (200 principals, a million calls) is `bench/confidentiality.py`."""
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        clients = [RawClient(hub.url + "/mcp", hub.key(f"agent{number}")) for number in range(40)]

        async def talk(client: RawClient, number: int) -> None:
            for turn in range(5):
                mark = f"{number}-{turn}"
                answer = await client.modern("tools/call", {"name": "busy__echo", "arguments": {"text": mark}}, id=1)
                assert text_of(answer) == mark

        await asyncio.gather(*(talk(client, number) for number, client in enumerate(clients)))
