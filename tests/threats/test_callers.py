"""Attacks of one caller on another: handles, answers, caches, request states, and what all of them share."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hub.legacy_client import answers
from hub.modern_client import ModernClient
from hub.running_hub import RawClient, RunningHub, child, last_message, running_hub, text_of, until
from interlock.config.settings import HubSettings, LimitSettings, Rate
from interlock.hub.calls.call import OpenCalls
from interlock.hub.calls.refusal_pacing import EVERY_S, MAX_PAUSE_S, RefusalPacing
from interlock.wire.ids import Worker, new_node

from .wires import address, call_body

LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover")
ECHO = {"name": "busy__echo", "arguments": {"text": "x"}}


async def test_t6_another_callers_session_is_as_unknown_as_one_that_never_was(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        mine, thief = RawClient(hub.url + "/mcp", hub.key("a")), RawClient(hub.url + "/mcp", hub.key("b"))
        await mine.initialize()
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ECHO}).encode()
        for method, data in (("POST", body), ("GET", b""), ("DELETE", b"")):
            stolen = await thief.send(method, data, {"mcp-session-id": mine.session or ""})
            unknown = await thief.send(method, data, {"mcp-session-id": "A" * 32})
            assert (stolen[0], stolen[2]) == (unknown[0], unknown[2]) == (404, unknown[2]), method
        assert text_of(await mine.legacy("tools/call", ECHO)) == "x", "and it goes on"


async def test_t6_the_older_streams_messages_are_their_openers_alone(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        key = hub.key("a")
        reader, writer = await asyncio.open_connection(*address(hub).split(":"))
        writer.write(f"GET /sse HTTP/1.1\r\nhost: {address(hub)}\r\nauthorization: Bearer {key}\r\n\r\n".encode())
        place = (await reader.readuntil(b"/messages/") + await reader.readuntil(b"\n")).rpartition(b"data: ")[2].strip()
        body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
        thief = RawClient(hub.url + place.decode(), hub.key("b"))
        unknown = RawClient(hub.url + "/messages/" + "A" * 32, hub.key("b"))
        stolen, nothing = await thief.post(body), await unknown.post(body)
        assert (stolen[0], stolen[2]) == (nothing[0], nothing[2]) == (404, nothing[2])
        writer.close()


def test_t6_session_ids_cannot_be_guessed() -> None:
    count = 100_000
    worker = Worker(new_node())
    ids = [worker.new_id() for _ in range(count)]
    assert len(set(ids)) == count
    bits = 0.0
    for place in zip(*ids, strict=True):
        shares = [times / count for times in Counter(place).values()]
        bits -= sum(share * math.log2(share) for share in shares)
    assert bits >= 128


async def test_t8_answers_reach_whoever_asked_though_everybody_uses_the_same_ids(tmp_path: Path) -> None:
    agents, rounds = 200, 10
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:

        async def agent(number: int) -> int:
            key = hub.key(f"agent-{number}")
            reader, writer = await asyncio.open_connection(*address(hub).split(":"))
            wrong = 0
            for turn in range(rounds):
                text = f"{number}/{turn}"
                body = call_body("busy__echo", {"text": text}, id=7)
                while True:
                    writer.write(
                        f"POST /mcp HTTP/1.1\r\nhost: {address(hub)}\r\ncontent-type: application/json\r\n"
                        "accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n"
                        f"mcp-method: tools/call\r\nmcp-name: busy__echo\r\nauthorization: Bearer {key}\r\n"
                        f"content-length: {len(body)}\r\n\r\n".encode()
                        + body
                    )
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                    answer = last_message(await reader.readexactly(length))
                    if "result" in answer or "retry_after_ms" not in answer["error"]["data"]:
                        break
                    # The disk of a busy machine is slower than the hub allows for its audit log.
                    await asyncio.sleep(1)
                wrong += answer["id"] != 7 or text_of(answer) != text
            writer.close()
            return wrong

        assert sum(await asyncio.gather(*(agent(number) for number in range(agents)))) == 0


async def test_t9_nothing_that_depends_on_who_asks_may_be_kept_for_others(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py"), "other": child("busy_server.py")}) as hub:
        one, two = RawClient(hub.url + "/mcp", hub.key("one")), RawClient(hub.url + "/mcp", hub.key("two"))
        await hub.deny("two", "other")
        seen = []
        for client in (one, two):
            for method in (
                "tools/list",
                "prompts/list",
                "resources/list",
                "resources/templates/list",
                "server/discover",
            ):
                result = (await client.modern(method))["result"]
                assert result["cacheScope"] == "private", method
            (first, *_) = (await client.modern("resources/list"))["result"]["resources"]
            read = (await client.modern("resources/read", {"uri": first["uri"]}))["result"]
            assert read.get("cacheScope", "private") == "private"
            seen.append({tool["name"] for tool in (await client.modern("tools/list"))["result"]["tools"]})
        assert "other__echo" in seen[0] - seen[1]
        for key in (one.key, two.key):
            for path in ("/tools", "/openapi.json"):
                _, headers, _ = await RawClient(hub.url + path, key).send("GET")
                assert headers["cache-control"] == "no-store"


async def test_t30_a_request_state_is_good_for_its_caller_and_its_call_alone_and_once(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": child("asking_server.py", era="legacy")}) as hub:
        mine = ModernClient(hub.url + "/mcp", answers("ada"), hub.key("one"))
        thief = ModernClient(hub.url + "/mcp", answers("eve"), hub.key("two"))
        asked = await mine.start("a__order")
        assert asked["resultType"] == "input_required"
        reply = mine.reply(asked)
        garbage = await thief.ask("tools/call", {"name": "a__order", "arguments": {}}, **{**reply, "requestState": "x"})
        stolen = await thief.ask("tools/call", {"name": "a__order", "arguments": {}}, **reply)
        assert stolen["error"]["data"]["name"] == garbage["error"]["data"]["name"] == "REQUEST_STATE_REFUSED"
        changed = await mine.ask("tools/call", {"name": "a__everything", "arguments": {}}, **reply)
        assert changed["error"]["data"]["name"] == stolen["error"]["data"]["name"]
        other = await mine.ask("tools/call", {"name": "a__order", "arguments": {"more": 1}}, **reply)
        assert "error" in other or other["result"]["isError"]
        state = reply["requestState"]
        flipped = state[:-2] + ("A" if state[-2] != "A" else "B") + state[-1]
        forged = await mine.ask(
            "tools/call", {"name": "a__order", "arguments": {}}, **{**reply, "requestState": flipped}
        )
        assert "error" in forged
        done = await mine.ask("tools/call", {"name": "a__order", "arguments": {}}, **reply)
        assert done["result"]["resultType"] == "complete"
        again = await mine.ask("tools/call", {"name": "a__order", "arguments": {}}, **{**reply, "inputResponses": {}})
        assert again.get("result") != done["result"] or "error" in again


async def test_t36_whoever_asks_too_much_is_told_to_wait_and_nobody_else_is(tmp_path: Path) -> None:
    limits = LimitSettings(pending_per_agent=4)
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=HubSettings(limits=limits)) as hub:
        limited = RawClient(hub.url + "/mcp", await hub.new_key("limited", rate=Rate(per_minute=3)))
        free = RawClient(hub.url + "/mcp", hub.key("free"))
        outcomes = [await limited.modern("tools/call", ECHO) for _ in range(6)]
        refused = [answer["error"]["data"] for answer in outcomes if "error" in answer]
        assert len(refused) == 3
        assert all(data["name"] == "RATE_LIMITED" and data["retry_after_ms"] > 0 for data in refused)
        status, headers, _ = await RawClient(hub.url + "/tools/busy__echo", limited.key).post(b'{"text": "x"}')
        assert (status, int(headers["retry-after"]) > 0) == (429, True)
        assert text_of(await free.modern("tools/call", ECHO)) == "x"
        await _fill(hub, free)


async def _fill(hub: RunningHub, free: RawClient) -> None:
    """One caller hangs all the calls it may have; it is refused more, and its neighbour is served."""
    greedy = RawClient(hub.url + "/mcp", hub.key("greedy"))
    hanging = {"name": "busy__hang", "arguments": {"mark": "x"}}
    held = [asyncio.ensure_future(greedy.modern("tools/call", hanging, id=number)) for number in range(4)]
    await until(lambda: hub.hub_app.hub.open_calls == 4)
    answer = await greedy.modern("tools/call", ECHO)
    assert answer["error"]["data"]["name"] == "RESOURCE_EXHAUSTED"
    assert text_of(await free.modern("tools/call", ECHO)) == "x"
    for one in held:
        one.cancel()
    await asyncio.gather(*held, return_exceptions=True)


async def test_t36_whoever_goes_on_asking_is_answered_slowly_and_nobody_else_is(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        key = await hub.new_key("greedy", rate=Rate(per_minute=1))
        greedy, free = RawClient(hub.url + "/mcp", key), RawClient(hub.url + "/mcp", hub.key("free"))
        await greedy.modern("tools/call", ECHO)
        began = time.monotonic()
        await greedy.modern("tools/call", ECHO)
        at_once = time.monotonic() - began
        began = time.monotonic()
        refused = asyncio.gather(*(greedy.modern("tools/call", ECHO) for _ in range(30)))
        assert text_of(await free.modern("tools/call", ECHO)) == "x"
        assert not refused.done(), "its neighbour is answered before it"
        assert {answer["error"]["data"]["name"] for answer in await refused} == {"RATE_LIMITED"}
        assert time.monotonic() - began >= 29 * EVERY_S - at_once


@given(st.lists(st.floats(0, 2), max_size=80))
def test_t36_no_refusal_waits_longer_than_a_second_and_the_first_not_at_all(pauses: list[float]) -> None:
    refusal_pacing, open_calls, now = RefusalPacing(), OpenCalls(), 0.0
    for pause in pauses:
        now += pause
        waits = refusal_pacing.pause_s(open_calls, now)
        assert 0 <= waits <= MAX_PAUSE_S
        assert waits == 0 or pause < MAX_PAUSE_S


async def test_t36_a_tool_and_the_hub_have_limits_that_hold_for_all_together(tmp_path: Path) -> None:
    from interlock.config.settings import ToolSettings

    busy = child("busy_server.py", tools=ToolSettings(rate={"echo": Rate(per_minute=2)}))
    async with running_hub(tmp_path, {"busy": busy}, hub=HubSettings(rate=Rate(per_minute=4))) as hub:
        clients = [RawClient(hub.url + "/mcp", hub.key(f"agent-{number}")) for number in range(4)]
        of_tool = [await client.modern("tools/call", ECHO) for client in clients]
        assert ["result" in answer for answer in of_tool] == [True, True, False, False]
        pid = {"name": "busy__pid", "arguments": {}}
        of_hub = [await client.modern("tools/call", pid) for client in clients]
        assert sum("result" in answer for answer in of_hub) == 2
