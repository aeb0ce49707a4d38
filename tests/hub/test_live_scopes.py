"""Scopes through a whole hub: tools of feature sets, labels from arguments, and servers that ask for more."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interlock.config.settings import (
    ApprovalSettings,
    HubSettings,
    ScopeSettings,
    ServerSettings,
    TimeoutSettings,
    ToolSettings,
)
from interlock.hub.auth.principals import local_person
from interlock.hub.live.scope_elevations import ScopeElevations
from interlock.server import Context
from interlock.server import Server as LibraryServer

from .people import read_and_answer
from .running_hub import RawClient, RunningHub, child, running_hub
from .test_journal import entries
from .test_live import call, disable, enable

FILES = {"version": "0.4", "featureSets": {"files.edit": {"description": "Edit", "uses": ["tools"], "scoped": True}}}
RULES = ScopeSettings(
    ("/project/**", "/tmp/**"),
    ("**/.env", "**/secrets/**"),
    "{path}",
    {"/project/a": {"volume": "v1"}, "/etc/hosts": {"volume": "root"}},
)


@contextlib.asynccontextmanager
async def scoped_hub(folder: Path, offer: Any = FILES, *, declared: bool = True) -> AsyncIterator[RunningHub]:
    capabilities = json.dumps({"experimental": {"mcpl": offer}} if offer is not None else {})
    meta = json.dumps({"_meta": {"dev.interlock/featureSet": "files.edit"}} if declared else {})
    tools = ToolSettings(feature_sets={"look": "files.edit"})
    server = child("live_server.py", capabilities, meta, scopes={"files.edit": RULES}, tools=tools)
    hub = HubSettings(
        timeouts=TimeoutSettings(start_s=120, discovery_s=60, tool_s=60),
        approvals=ApprovalSettings(hold_s=0, valid_s=600),
    )
    async with running_hub(folder, {"s": server}, hub=hub) as running:
        yield running


async def write(hub: RunningHub, path: Any, tool: str = "write", content: str | None = None, **more: Any) -> Any:
    """The outcome of an agent's call: its result, or the details of its refusal."""
    client = RawClient(hub.url + "/mcp", hub.key("local"))
    arguments = {} if path is None else {"path": path}
    if content is not None:
        arguments["content"] = content
    answer = await client.modern("tools/call", {"name": f"s__{tool}", "arguments": arguments, **more})
    if "error" in answer:
        return answer["error"]["data"]
    return answer["result"].get("_meta", {}).get("dev.interlock/error", "done")


async def test_t115_a_scoped_tool_is_checked_before_its_call_leaves(tmp_path: Path) -> None:
    async with scoped_hub(tmp_path) as hub:
        for tool in ("write", "look"):
            off = await write(hub, "/project/a", tool)
            assert (off["name"], off["rule"]) == ("ACCESS_DENIED", "feature set files.edit: off"), tool
        await enable(hub, "files.edit")
        assert await write(hub, "/project/a") == "done"
        denied = await write(hub, "/project/secrets/key")
        assert (denied["name"], denied["gate"]) == ("ACCESS_DENIED", "scopes")
        assert (await write(hub, "/project/../etc/passwd"))["name"] in ("ACCESS_DENIED", "APPROVAL_PENDING")
        assert (await write(hub, None))["name"] == "INVALID_PARAMS", "no label, no call"
        assert (await write(hub, ["/project/a"]))["name"] == "INVALID_PARAMS"
        asked = await write(hub, "/etc/hosts")
        assert asked["name"] == "APPROVAL_PENDING"
        forged = {"scope": {"label": "/project/x", "payload": {}}, "state": {"data": 1}, "checkpoint": "chk"}
        assert (await write(hub, "/etc/hosts", **forged))["name"] == "APPROVAL_PENDING", "the arguments count"
        assert await write(hub, "/project/b", **forged) == "done"
        await disable(hub, "files.edit")
        assert (await write(hub, "/project/a"))["rule"] == "feature set files.edit: off"
        heard = await call(hub, "heard")
        sent = [message["params"] for message in heard if message.get("method") == "tools/call"]
        written = [params for params in sent if params["name"] == "write"]
        assert [params["scope"]["label"] for params in written] == ["/project/a", "/project/b"]
        assert written[0]["scope"]["payload"] == {"path": "/project/a", "volume": "v1"}, "with the operator's members"
        assert not [params for params in sent if {"state", "checkpoint"} & params.keys()]


UNSCOPED = {
    "version": "0.4",
    "featureSets": {"files.edit": {"description": "Edit", "uses": ["tools"], "scoped": False}},
}


@pytest.mark.parametrize(
    ("offer", "declared"),
    [(None, True), (None, False), ({"version": 7, "featureSets": []}, True), (UNSCOPED, True)],
    ids=["no offer", "no offer and no declaration", "an unreadable offer", "not scoped"],
)
async def test_t115_the_operators_scopes_hold_whatever_the_server_offers(
    tmp_path: Path, offer: Any, declared: bool
) -> None:
    async with scoped_hub(tmp_path, offer, declared=declared) as hub:
        if offer is UNSCOPED:
            await enable(hub, "files.edit")
        for tool in ("write", "look"):
            for path in ("/project/secrets/key", "/project/.env"):
                assert (await write(hub, path, tool))["name"] == "ACCESS_DENIED", (tool, path)
            assert await write(hub, "/etc/hosts", tool) != "done"
            for further in ({"path": "/project/a", "Path": "/etc/hosts"}, {"PATH": "/etc/hosts"}):
                assert (await write(hub, None, tool, arguments=further))["name"] == "INVALID_PARAMS", (tool, further)
        heard = await call(hub, "heard")
        sent = [message["params"] for message in heard if message.get("method") == "tools/call"]
        assert not [params for params in sent if params["name"] in ("write", "look")]


async def test_t115_a_label_that_is_written_as_a_uri_is_judged_decoded(tmp_path: Path) -> None:
    async with scoped_hub(tmp_path) as hub:
        await enable(hub, "files.edit")
        for path in ("/project/%2eenv", "/project/%252Eenv", "/project/%73ecrets/key", "/project/a%00"):
            denied = await write(hub, path)
            assert (denied["name"], denied["gate"]) == ("ACCESS_DENIED", "scopes"), path
        assert (await write(hub, "/project%2f..%2f..%2fetc/x"))["name"] == "APPROVAL_PENDING"
        assert await write(hub, "/project/100%25") == "done"


async def test_t115_a_server_gets_a_scope_by_the_lists_or_from_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scoped_hub(tmp_path) as hub:

        async def elevate(label: str, path: str | None = None) -> Any:
            payload = {"path": path or label, "mode": "append"}
            params = {"featureSet": "files.edit", "scope": {"label": label, "payload": payload}}
            answer = await call(hub, "send", method="scope/elevate", params=params)
            return answer.get("result") or answer["error"]

        assert (await elevate("/project/a"))["code"] == -32001, "off"
        await enable(hub, "files.edit")
        payload = {"path": "/project/a", "mode": "append", "volume": "v1"}
        assert await elevate("/project/a") == {"approved": True, "payload": payload}
        assert (await elevate("/project/.env"))["approved"] is False
        assert (await elevate("/project/a", "/etc/shadow"))["code"] == -32602, "a label that its payload contradicts"
        first = await elevate("/etc/hosts")
        assert first["approved"] is False
        assert "a person was asked" in first["reason"]
        (decision,) = (await hub.operate("approvals.list"))["decisions"]
        assert (decision["kind"], "/etc/hosts" in json.dumps(decision)) == ("scope", True), decision
        view = await hub.operate("approvals.show", id=decision["id"])
        assert '"volume": "root"' in json.dumps(view).replace('\\"', '"'), "a person sees the members that the hub adds"
        await read_and_answer(hub.hub_app.inbox, decision["id"], "once", local_person("tester"))
        assert (await elevate("/etc/hosts"))["payload"]["volume"] == "root"
        assert (await elevate("/etc/passwd"))["approved"] is False, "another label is another matter"
        await disable(hub, "files.edit")
        await enable(hub, "files.edit")
        assert (await elevate("/etc/hosts"))["approved"] is False, "an approval ends with the grant it was given under"
        found = [entry.record.details for entry in await entries(hub, event="dev.interlock.live_scope")]
        assert [(each["label"], each["approved"]) for each in found][:2] == [
            ("/project/a", True),
            ("/project/.env", False),
        ]

        decide = ScopeElevations.elevate

        async def revoked_meanwhile(*asked: Any) -> Any:
            result = await decide(*asked)
            await disable(hub, "files.edit")
            return result

        monkeypatch.setattr(ScopeElevations, "elevate", revoked_meanwhile)
        assert (await elevate("/project/a"))["code"] == -32001, "the grant ended while the answer was made"


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_server_of_the_library_asks_for_a_scope_in_the_middle_of_a_call(tmp_path: Path, era: Any) -> None:
    server = LibraryServer("files")
    server.feature("files.edit", "Edit", uses=["tools"], scoped=True, scope_label="{path}")

    @server.tool(meta={"dev.interlock/featureSet": "files.edit"})
    async def write(path: str, ctx: Context) -> str:
        more = await ctx.elevate("files.edit", "/project/a", {"path": "/project/a"})
        assert ctx.scope is not None
        return f"{ctx.scope.label} {more.approved} {more.payload}"

    async with server.http() as address:
        settings = ServerSettings(url=address.url, era=era, scopes={"files.edit": RULES})
        async with running_hub(tmp_path, {"s": settings}) as hub:
            await enable(hub, "files.edit")
            client = RawClient(hub.url + "/mcp", hub.key("local"))
            answer = await client.modern("tools/call", {"name": "s__write", "arguments": {"path": "/tmp/x"}})
            text = answer["result"]["content"][0]["text"]
            assert text == "/tmp/x True {'path': '/project/a', 'volume': 'v1'}", answer
            hub_settings = hub.hub_app.config.hub
            held = hub.hub_app.live.scope_hold_s("s")
            assert held <= hub_settings.approvals.hold_s
            assert held < hub_settings.timeouts.tool_s, "a call that asks for a scope ends before its limit"
