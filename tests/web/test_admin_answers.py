"""The admin API answers what its OpenAPI document says, member by member; a name that is none gets 404."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hub.running_hub import RawClient, RunningHub, child, running_hub
from hub.test_live import event, offer, push
from hub.test_registration import ASKED, SERVES
from interlock.config.model_settings import HostSettings, ModelSettings
from interlock.config.settings import (
    AgentSettings,
    ApprovalSettings,
    HubSettings,
    PermissionSettings,
    RoomSettings,
    TimeoutSettings,
    TopicSettings,
)
from interlock.hub.taints import TAINTS, Source, Taint
from interlock.rooms import Participant

from .test_admin import ADDRESSED, CALL, Admin

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def shared_hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningHub]:
    """One hub for every request that names nothing."""
    async with hub_in(tmp_path_factory.mktemp("answers")) as running:
        yield running


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    async with hub_in(tmp_path) as running:
        yield running


@contextlib.asynccontextmanager
async def hub_in(folder: Path) -> AsyncIterator[RunningHub]:
    settings = HubSettings(timeouts=TimeoutSettings(start_s=120), approvals=ApprovalSettings(hold_s=0))
    agents = {"careful": AgentSettings(ask=("busy__ec*",))}
    needs = PermissionSettings(require=("network.outbound",), policy="auto_approve")
    servers = {
        "busy": child("busy_server.py", permissions=needs),
        "s": child("live_server.py", offer(), "{}"),
        "chat": child("channel_server.py"),
    }
    rooms = RoomSettings(topics={"build": TopicSettings(members={"careful": "proposal-only", "ada": "full-access"})})
    # Only a hub with a model has channels.
    (folder / "script.json").write_text('[{"text": "yes"}]')
    models = {"toy": ModelSettings(kind="scripted", script=str(folder / "script.json"))}
    more = {"models": models, "host": HostSettings(model="toy")}
    async with running_hub(folder, servers, hub=settings, agents=agents, rooms=rooms, **more) as running:
        yield running


class CheckedAdmin(Admin):
    """A client that holds every answer to the document."""

    document: dict[str, Any]

    def __init__(self, hub: RunningHub, key: str) -> None:
        super().__init__(hub, key)
        self.seen: set[tuple[str, str]] = set()

    async def good(self, method: str, path: str, body: object = None, template: str = "") -> Any:
        answer = await super().good(method, path, body)
        place = template or path.partition("?")[0]
        said = self.document["paths"][place][method.lower()]["responses"]["200"]
        schema = said["content"]["application/json"]["schema"]
        jsonschema.validate(answer, schema, jsonschema.Draft202012Validator)
        assert undeclared(answer, schema) == [], place
        self.seen.add((method, place))
        return answer


def undeclared(value: Any, schema: dict[str, Any], at: str = "") -> list[str]:
    """The members of an answer that the document does not have."""
    found: list[str] = []
    forms = [form for form in schema.get("anyOf", [schema]) if form.get("type") != "null"]
    if isinstance(value, list):
        for item in value:
            found += undeclared(item, schema_in(forms, "items"), f"{at}[]")
    if isinstance(value, dict):
        named: dict[str, Any] = {name: part for form in forms for name, part in form.get("properties", {}).items()}
        rest = next((form["additionalProperties"] for form in forms if "additionalProperties" in form), None)
        for name, part in value.items():
            if name in named:
                found += undeclared(part, named[name], f"{at}.{name}")
            elif rest is None:
                found.append(f"{at}.{name}")
    return found


def schema_in(forms: list[dict[str, Any]], member: str) -> dict[str, Any]:
    return next((form[member] for form in forms if member in form), {})


async def asked(hub: RunningHub) -> str:
    await RawClient(hub.url + "/mcp", hub.key("careful")).modern("tools/call", CALL)
    return hub.hub_app.inbox.all(only_open=True)[-1].id


async def test_every_address_answers_what_the_document_says(hub: RunningHub) -> None:
    admin = CheckedAdmin(hub, await hub.new_key("ada", "person"))
    admin.document = await Admin(hub, admin.key).good("GET", "/openapi.json")
    rate = {"per_minute": 5, "per_hour": 9}
    wish = {"agent": "ci", "permissions": ["invoke:busy__*"], "expires_at": "2099-01-01T00:00:00Z", "rate": rate}
    await admin.good("POST", "/admin/keys", wish)
    await admin.good("GET", "/admin/keys")
    await admin.good("POST", "/admin/keys/ci/rotate", template="/admin/keys/{agent}/rotate")
    about = {"entry_type": "tool_grant", "agent_id": "ci", "server_id": "busy", "tool_name": "echo"}
    given = {**about, "permission": "deny", "justification": "x", "expires_at": "2099-01-01T00:00:00Z"}
    await admin.good("POST", "/admin/grants", given)
    await admin.good("GET", "/admin/grants")
    await admin.good("GET", "/admin/access?agent_id=ci&server_id=busy&tool_name=echo")
    await admin.good("POST", "/admin/why", {"agent": "ci", "tool": "busy__echo", "arguments": {"text": "a"}})
    assert (await RawClient(hub.url + "/mcp", await hub.new_key("ci")).modern("tools/call", CALL))["error"]
    assert (await admin.good("POST", "/admin/why", {"agent": "ci"}))["refusal"]["gate"] == "access"
    await admin.good("DELETE", "/admin/grants?" + "&".join(f"{name}={value}" for name, value in about.items()))
    await admin.good("DELETE", "/admin/keys/ci", template="/admin/keys/{agent}")
    for act in ("deny", "approve", "revoke"):
        path, body = f"/admin/permissions/busy/{act}", {"permissions": ["network.outbound"], "because": "x"}
        await admin.good("POST", path, body, template=path.replace("busy", "{server}"))
    await admin.good("POST", "/admin/permissions/busy/approve", body, template="/admin/permissions/{server}/approve")
    assert (await admin.good("GET", "/admin/permissions"))["permissions"][0]["by"] == "ada"
    await hub.hub_app.permissions.caught_up()
    decision = await asked(hub)
    assert len((await admin.good("GET", "/admin/decisions"))["decisions"]) == 1
    shown = await admin.good("GET", f"/admin/decisions/{decision}", template="/admin/decisions/{id}")
    answer = f"/admin/decisions/{decision}/answer"
    opened = {"answer": "once", "view": shown["view_hash"]}
    await admin.good("POST", answer, opened, template="/admin/decisions/{id}/answer")
    rule = (await admin.good("POST", "/admin/rules", {"decision": decision}))["rule"]["id"]
    await admin.good("GET", "/admin/rules")
    await admin.good("DELETE", f"/admin/rules/{rule}", template="/admin/rules/{id}")
    entries = (await admin.good("GET", "/admin/audit"))["entries"]
    seq = next(entry["seq"] for entry in entries if entry["record"].get("trace"))
    await admin.good("GET", f"/admin/audit/{seq}", template="/admin/audit/{seq}")
    await admin.good("POST", "/admin/audit/verify")
    for act in ("stop", "start", "restart"):
        body = {"because": "x"}
        await admin.good("POST", f"/admin/servers/busy/{act}", body, template=f"/admin/servers/{{server}}/{act}")
    await RawClient(hub.url + "/mcp", hub.key("connected")).initialize()
    sessions = (await admin.good("GET", "/admin/sessions"))["sessions"]
    await admin.good("DELETE", f"/admin/sessions/{sessions[0]['id']}", template="/admin/sessions/{id}")
    assert (await admin.good("GET", "/admin/rooms"))["rooms"][0]["topic"] == "build"
    path = "/admin/participants/{id}/capabilities"
    more = {"add": ["mcp/request:tools/*"], "remove": ["chat"]}
    await admin.good("POST", path.replace("{id}", "careful") + "?topic=build", more, template=path)
    async with Participant(hub.url, "build", hub.key("careful")):
        path = "/admin/participants/{id}"
        body = {"mode": "directed"}
        await admin.good("POST", path.replace("{id}", "careful") + "?topic=build", body, template=path)
    path = "/admin/rooms/{topic}/"
    at = path.replace("{topic}", "build")
    await admin.good("POST", at + "messages", {"text": "hello"}, template=path + "messages")
    await admin.good("POST", at + "proposals", {"method": "tools/call"}, template=path + "proposals")
    assert (await admin.good("GET", at + "messages", template=path + "messages"))["messages"]
    await admin.good("POST", at + "leave", template=path + "leave")
    assert (await admin.good("GET", "/admin/features"))["features"]
    switched = {"features": ["news.push"], "agent": "local", "because": "x"}
    path = "/admin/servers/{server}/features/"
    for act in ("enable", "disable", "forget", "enable"):
        await admin.good("POST", f"{path.replace('{server}', 's')}{act}", switched, template=path + act)
    talking = {"features": ["news.talk"], "agent": "local", "because": "x"}
    await admin.good("POST", f"{path.replace('{server}', 'chat')}enable", talking, template=path + "enable")
    await hub.hub_app.live.connections.settled("chat", 60)
    wish = {"server": "chat", "type": "chat", "address": {"channel": "#new"}}
    channel = (await admin.good("POST", "/admin/channels/open", wish))["id"]
    assert channel in [row["id"] for row in (await admin.good("GET", "/admin/channels"))["channels"]]
    assert (await admin.good("POST", "/admin/channels/close", {"id": channel}))["closed"]
    await admin.good("GET", "/admin/conversations")
    assert (await push(hub, event()))[0]["result"]["accepted"]
    assert (await admin.good("GET", "/admin/events"))["events"]
    assert (await admin.good("GET", "/admin/usage"))["usage"]
    assert (await admin.good("POST", "/admin/discovery/list", {}))["servers"]
    if SERVES:
        await admin.good("POST", "/admin/discovery", {k: v for k, v in ASKED.items() if k != "created_by"})
        path = "/admin/discovery/{id}"
        await admin.good("DELETE", path.replace("{id}", ASKED["id"]), template=path)
    source = Source("s", "read", time.time())
    async with hub.hub_app.store.transaction() as change:
        change.put(TAINTS, Taint("agent:local", "agent:local", (source,)))
    assert [row["agent"] for row in (await admin.good("GET", "/admin/taints"))["taints"]] == ["local"]
    await admin.good("DELETE", "/admin/taints/local", template="/admin/taints/{agent}")
    await admin.good("GET", "/admin/logins")
    await admin.good("GET", "/admin/health")
    await admin.good("GET", "/admin/status")
    await admin.good("POST", "/admin/reload")
    contained = set() if SERVES else {("POST", "/admin/discovery"), ("DELETE", "/admin/discovery/{id}")}
    assert admin.seen == {(address.verb, address.path) for address in ADDRESSED} - contained
    written = {entry["record"]["event"] for entry in (await admin.good("GET", "/admin/audit?most=1000"))["entries"]}
    for operation in ADDRESSED:
        assert not operation.events or written & {*operation.events}, operation.name


def test_what_the_document_leaves_out_is_seen() -> None:
    schema = {"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}, {"type": "array", "items": {}}]}}}
    assert undeclared({"a": [{"b": 1}], "c": 2}, schema) == [".a[].b", ".c"]


@pytest.mark.parametrize(
    ("verb", "path", "body"),
    [
        ("GET", "/admin/decisions/nope", None),
        ("POST", "/admin/decisions/nope/answer", {"answer": "no"}),
        ("POST", "/admin/rules", {"decision": "nope"}),
        ("DELETE", "/admin/rules/nope", None),
        ("GET", "/admin/audit/999999", None),
        ("GET", "/admin/permissions?server=nope", None),
        ("POST", "/admin/permissions/nope/approve", {"permissions": ["camera"]}),
        ("POST", "/admin/permissions/nope/deny", {"permissions": ["camera"]}),
        ("POST", "/admin/permissions/nope/revoke", {"permissions": ["camera"]}),
        ("POST", "/admin/servers/nope/restart", None),
        ("POST", "/admin/servers/nope/stop", {"now": True}),
        ("POST", "/admin/servers/nope/start", None),
        ("POST", "/admin/keys/nope/rotate", None),
        ("DELETE", "/admin/keys/nope", None),
        ("POST", "/admin/why", {"agent": "nope", "tool": "busy__echo"}),
    ],
)
async def test_what_has_no_such_name_is_not_found(shared_hub: RunningHub, verb: str, path: str, body: object) -> None:
    admin = Admin(shared_hub, await shared_hub.new_key("ada", "person"))
    status, refused = await admin.ask(verb, path, body)
    assert (status, bool(refused["suggestions"])) == (404, True), refused
