"""Channels and state of servers for clients that are hosts of MCPL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.hub.audit.record import INTENDED
from interlock.hub.handlers.host_methods import MAX_RUNNING
from waiting import until

from .failing_store import fail_to_record, record_again
from .host_client import HostClient
from .host_scene import GENERAL, OFFER, TURN, asked, between, drive, enable, heard, reply
from .running_hub import child, running_hub
from .test_journal import entries


async def test_a_client_that_does_not_answer_takes_no_place_from_others(tmp_path: Path) -> None:
    async with between(tmp_path) as hub:
        await enable(hub, "a", "note.talk", "note.recall", agent="other")
        async with (
            HostClient(hub, "mine", modern=False).running() as silent,
            HostClient(hub, "other", modern=False).running() as other,
        ):
            for client in (silent, other):
                client.answers["channels/register"] = {"results": []}
                await client.select("a.note.talk", "a.note.recall")
                await client.result("context/beforeInference", TURN)  # the server was told by now
            await drive(hub, "a", "send", method="channels/register", params={"channels": [GENERAL]})

            silent.answers["channels/register"] = None
            before = silent.asked.qsize()
            for _ in range(70):
                await silent.select("a.note.talk")
            await until(lambda: silent.asked.qsize() - before >= MAX_RUNNING)
            said = {"conversationId": "c1", "channelId": "a/chat:#general", "inferenceId": "i", "index": 0}
            await other.tell("channels/outgoing/chunk", {**said, "delta": "Hel"})
            await until(lambda: heard(hub, "a", "channels/outgoing/chunk"))
            assert silent.asked.qsize() - before == MAX_RUNNING, "what one client keeps waiting is bounded"


@pytest.mark.parametrize("modern", [False, True])
async def test_channels_of_servers_are_the_clients_under_the_hubs_names(tmp_path: Path, modern: bool) -> None:
    async with between(tmp_path, "a", "b") as hub, HostClient(hub, "mine", modern=modern).running() as client:
        client.answers |= {"channels/register": {"results": []}}
        await client.select("a.note.talk", "a.note.recall")
        await client.result("context/beforeInference", TURN)  # the servers were told by now
        registered = await drive(hub, "a", "send", method="channels/register", params={"channels": [GENERAL]})
        assert registered["result"]["results"][0]["accepted"]
        (added,) = (await client.notified("channels/changed"))["added"]
        assert added["id"] == "a/chat:#general"
        listed = (await client.result("channels/list"))["channels"]
        assert [each["id"] for each in listed] == ["a/chat:#general"]
        await client.select("a.note.talk")
        again = await asked(client)
        assert (again["method"], again["params"]["channels"][0]["id"]) == ("channels/register", "a/chat:#general")
        await reply(hub, "a", "channels/publish", {"delivered": True, "messageId": "m9"})
        said = {"conversationId": "c1", "channelId": "a/chat:#general", "content": "Hello team"}
        assert (await client.result("channels/publish", said))["messageId"] == "m9"
        (got,) = await heard(hub, "a", "channels/publish")
        assert (got["channelId"], got["conversationId"][:5]) == ("chat:#general", "conv_")
        for unknown in ("b/chat:#general", "a/chat:#other", "chat:#general", "thinking"):
            refused = await client.ask("channels/publish", {**said, "channelId": unknown})
            assert refused["error"]["code"] == -32023, unknown
        refused = await client.ask("channels/publish", {**said, "channelId": "a/thinking"})
        assert refused["error"]["code"] == -32017
        await client.tell("channels/outgoing/chunk", {**said, "inferenceId": "i", "index": 0, "delta": "Hel"})
        seen = await until(lambda: heard(hub, "a", "channels/outgoing/chunk"))
        assert (seen[0]["delta"], seen[0]["channelId"]) == ("Hel", "chat:#general")
        client.answers["channels/incoming"] = {
            "results": [{"messageId": "d1", "accepted": True, "conversationId": "c1"}]
        }
        message = {"messageId": "d1", "author": {"id": "u", "name": "Al\u200bice"}, "timestamp": "2026-03-05T10:30:00Z"}
        message |= {"channelId": "chat:#general", "content": [{"type": "text", "text": "Status?"}]}
        params = {"messages": [message, {**message, "channelId": "nowhere", "messageId": "d2"}]}
        taken = (await drive(hub, "a", "send", method="channels/incoming", params=params))["result"]["results"]
        assert (taken[0]["accepted"], taken[0]["conversationId"]) == (True, got["conversationId"])
        assert not taken[1]["accepted"]
        (shown,) = (await asked(client))["params"]["messages"]
        assert (shown["channelId"], shown["author"]["name"]) == ("a/chat:#general", "Al\\u{200B}ice")
        assert hub.hub_app.live.touches.at("mine"), "its tools that write ask from now on"
        await reply(hub, "a", "channels/open", {"nonsense": 1})
        refused = await client.ask("channels/open", {"type": "chat", "address": {"channel": "#dev"}})
        assert refused["error"]["data"]["name"] == "UPSTREAM_ERROR", "it is the server that is at fault"
        await reply(hub, "a", "channels/open", {"channel": {**GENERAL, "id": "chat:#dev"}})
        opened = await client.result("channels/open", {"type": "chat", "address": {"channel": "#dev"}})
        assert opened["channel"]["id"] == "a/chat:#dev"
        await reply(hub, "a", "channels/close", {"closed": True})
        assert (await client.result("channels/close", {"channelId": "a/chat:#dev"}))["closed"]
        assert [each["id"] for each in (await client.result("channels/list"))["channels"]] == ["a/chat:#general"]
        await fail_to_record(hub.hub_app.store)
        unsent = await client.ask("channels/publish", said)
        await record_again(hub.hub_app.store)
        assert "result" not in unsent
        await hub.hub_app.recorder.flushed()
        ends = [each.record for each in await entries(hub, event="dev.interlock.live_published")]
        assert [each.outcome.transport for each in ends if each.outcome is not None][-1] == "not_sent", "and not open"


STATEFUL = {"_meta": {"dev.interlock/featureSet": "note.edit"}}


@pytest.mark.parametrize("share", ["auto", "principal"])
async def test_a_client_keeps_the_state_and_rolls_back_where_nobody_shares_the_connection(
    tmp_path: Path, share: Any
) -> None:
    offer = json.dumps({"experimental": {"mcpl": OFFER}})
    server = child("live_server.py", offer, json.dumps(STATEFUL), share=share)
    async with running_hub(tmp_path, {"a": server}) as hub:
        await enable(hub, "a", "note.**")
        await enable(hub, "a", "note.**", agent="driver")
        async with HostClient(hub, "mine", modern=False).running() as client:
            await client.result("featureSets/update", {"enabled": ["a.note.edit"]})
            early = await client.ask("state/rollback", {"featureSet": "a.note.edit", "checkpoint": "k"})
            shared = share == "auto"
            assert ("share" in json.dumps(early)) is shared, "the client's own connection need not be open yet"
            await client.result("featureSets/update", {"disabled": ["a.note.edit"]})
            write = {"name": "a__write", "arguments": {}, "state": {"notes": [1]}}
            await client.result("tools/call", write)
            await client.select("a.note.edit")
            await client.result("tools/call", write)
            seen = await client.result("tools/call", {"name": "a__heard", "arguments": {}})
            calls = [
                each["params"] for each in json.loads(seen["content"][0]["text"]) if each["method"] == "tools/call"
            ]
            written = [each for each in calls if each["name"] == "write"]
            assert [each.get("state") for each in written] == [None, {"notes": [1]}], "only a host's state crosses"
            reached = await client.result(
                "tools/call",
                {
                    "name": "a__reply",
                    "arguments": {"method": "state/rollback", "result": {"checkpoint": "k", "success": True}},
                },
            )
            assert not reached.get("isError")
            by_name = await client.ask("tools/call", {"name": "a__write", "arguments": {}, "checkpoint": "k"})
            back = await client.ask("state/rollback", {"featureSet": "a.note.edit", "checkpoint": "k"})
            if share == "auto":
                assert "nobody shares" in json.dumps(by_name)
                assert (back["result"]["success"], "share" in back["result"]["reason"]) == (False, True)
            else:
                assert "isError" not in by_name["result"]
                assert back["result"] == {"checkpoint": "k", "success": True}
                rows = [each.record.details or {} for each in await entries(hub, event="dev.interlock.live_rollback")]
                assert [row["outcome"] for row in rows] == ["failed", "done"]
                intents = [each.record for each in await entries(hub, event=INTENDED)]
                assert [each.name for each in intents if each.kind == "state"] == ["note.edit"] * 2
                assert all(row["agent_id"] == "mine" and "conversationId" not in row for row in rows)
                gone = {"code": -32005, "message": "gone", "data": {"name": "ACCESS_DENIED", "checkpoint": "k"}}
                await client.result(
                    "tools/call", {"name": "a__reply", "arguments": {"method": "state/rollback", "error": gone}}
                )
                lost = (await client.ask("state/rollback", {"featureSet": "a.note.edit", "checkpoint": "k"}))["error"]
                assert (lost["code"], lost["data"]) == (-32005, {"domain": "mcpl", "name": "CHECKPOINT_NOT_FOUND"})
            unknown = await client.ask("state/rollback", {"featureSet": "a.note.nothing", "checkpoint": "k"})
            assert unknown["error"]["code"] == -32003
