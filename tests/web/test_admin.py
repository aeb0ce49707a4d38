"""The admin API through a whole hub: keys, grants, decisions, rules, the record; each only with the right to."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from hub.running_hub import RawClient, RunningHub, child, running_hub
from hub.test_operations import broken, sample
from interlock.config.settings import AgentSettings, ApprovalSettings, HubSettings, ProfileSettings, TimeoutSettings
from interlock.hub.admin.operation import Operation
from interlock.hub.admin.operations import Operations
from interlock.hub.admin.table import OPERATIONS
from interlock.hub.approvals.states import DecisionState
from interlock.web.admin.routes import MAX_BODY, admin_routes

pytestmark = pytest.mark.anyio

ADDRESSED = [operation for operation in OPERATIONS.values() if operation.path]
CALL = {"name": "busy__echo", "arguments": {"text": "a"}}


class Admin:
    """A client of the admin API."""

    def __init__(self, hub: RunningHub, key: str | None) -> None:
        self.hub = hub
        self.key = key

    async def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        payload = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        client = RawClient(self.hub.url + path, self.key)
        status, _, answer = await client.send(method, payload, {"accept": "application/json", **headers})
        return status, json.loads(answer) if answer else None

    async def good(self, method: str, path: str, body: object = None) -> Any:
        status, answer = await self.ask(method, path, body)
        assert status == 200, answer
        return answer


@contextlib.asynccontextmanager
async def hub_in(folder: Path) -> AsyncIterator[RunningHub]:
    settings = HubSettings(timeouts=TimeoutSettings(start_s=120), approvals=ApprovalSettings(hold_s=0))
    agents = {"careful": AgentSettings(ask=("busy__ec*",))}
    async with running_hub(folder, {"busy": child("busy_server.py")}, hub=settings, agents=agents) as running:
        yield running


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    async with hub_in(tmp_path) as running:
        yield running


@pytest.fixture
async def admin(hub: RunningHub) -> Admin:
    return Admin(hub, await hub.new_key("ada", "person"))


@pytest.fixture(scope="module")
async def shared_hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningHub]:
    """One hub for tests that do not depend on what others have changed in it."""
    async with hub_in(tmp_path_factory.mktemp("admin")) as running:
        yield running


@pytest.fixture(scope="module")
async def shared_admin(shared_hub: RunningHub) -> Admin:
    return Admin(shared_hub, await shared_hub.new_key("ada", "person"))


async def asked(hub: RunningHub) -> str:
    """A question of an agent's; its id."""
    await RawClient(hub.url + "/mcp", hub.key("careful")).modern("tools/call", CALL)
    return hub.hub_app.inbox.all(only_open=True)[-1].id


async def test_keys_are_made_listed_rotated_and_revoked(hub: RunningHub, admin: Admin) -> None:
    made = await admin.good("POST", "/admin/keys", {"agent": "ci", "permissions": ["invoke:busy__*"]})
    assert "result" in await RawClient(hub.url + "/mcp", made["key"]).modern("tools/list")
    listed = await admin.good("GET", "/admin/keys")
    assert {key["principal"] for key in listed["keys"]} == {"ada", "ci"}
    assert made["key"] not in json.dumps(listed)
    fresh = await admin.good("POST", "/admin/keys/ci/rotate")
    assert (await RawClient(hub.url + "/mcp", made["key"]).post(b"{}"))[0] == 401
    assert await admin.good("DELETE", "/admin/keys/ci") == {"revoked": 1}
    assert (await RawClient(hub.url + "/mcp", fresh["key"]).post(b"{}"))[0] == 401


async def test_grants_are_given_queried_listed_and_taken_back(hub: RunningHub, admin: Admin) -> None:
    about = {"entry_type": "tool_grant", "agent_id": "ci", "server_id": "busy", "tool_name": "echo"}
    assert (await admin.good("POST", "/admin/grants", {**about, "permission": "deny"}))["granted_by"] == "ada"
    query = "/admin/access?agent_id=ci&server_id=busy&tool_name=echo"
    assert (await admin.good("GET", query))["permission"] == "deny"
    assert (await admin.good("GET", "/admin/grants?agent=ci&most=5"))["total"] == 1
    gone = "&".join(f"{name}={value}" for name, value in about.items())
    assert await admin.good("DELETE", f"/admin/grants?{gone}") == {"revoked": 1}
    assert (await admin.good("GET", query))["permission"] == "allow"


async def test_t41_a_person_answers_a_request_that_was_opened_and_the_call_goes_through_once(
    hub: RunningHub, admin: Admin
) -> None:
    decision = await asked(hub)
    (listed,) = (await admin.good("GET", "/admin/decisions"))["decisions"]
    assert (listed["id"], listed["asker"], listed["risk"], listed["trust"]) == (
        decision,
        "careful",
        "moderate",
        "standard",
    )
    path = f"/admin/decisions/{decision}/answer"
    shown = await admin.good("GET", f"/admin/decisions/{decision}")
    assert '"text": ' in shown["view"]
    told = await admin.good("POST", path, {"answer": "once", "view": shown["view_hash"]})
    assert (told["decision"]["state"], told["decision"]["answered_by"]) == ("approved", "ada")
    assert told["decision"]["answered_in"] == "api"
    agent = RawClient(hub.url + "/mcp", hub.key("careful"))
    assert "APPROVAL_PENDING" not in str(await agent.modern("tools/call", CALL))
    status, refused = await admin.ask("POST", f"/admin/decisions/{decision}/answer", {"answer": "no"})
    assert (status, "answered only once" in refused["message"]) == (400, True)


async def test_t41_a_person_approves_only_arguments_that_were_shown(hub: RunningHub, admin: Admin) -> None:
    decision = await asked(hub)
    for unopened in ({"answer": "once"}, {"answer": "always"}, {"answer": "once", "view": "0" * 64}):
        status, refused = await admin.ask("POST", f"/admin/decisions/{decision}/answer", unopened)
        assert (status, "not shown in full" in refused["message"]) == (400, True)


async def test_rules_are_made_listed_and_revoked(hub: RunningHub, admin: Admin) -> None:
    decision = await asked(hub)
    seen = (await admin.good("GET", f"/admin/decisions/{decision}"))["view_hash"]
    await admin.good("POST", f"/admin/decisions/{decision}/answer", {"answer": "once", "view": seen})
    rule = (await admin.good("POST", "/admin/rules", {"decision": decision}))["rule"]
    assert [known["id"] for known in (await admin.good("GET", "/admin/rules"))["rules"]] == [rule["id"]]
    await admin.good("DELETE", f"/admin/rules/{rule['id']}")
    assert (await admin.good("GET", "/admin/rules"))["rules"] == []


@pytest.mark.parametrize("kind", ["agent", "service", "admin"])
async def test_t32_no_key_but_a_persons_answers_whatever_it_permits(hub: RunningHub, kind: Any) -> None:
    decision = await asked(hub)
    key = await hub.new_key("robot", kind, permissions=("invoke:**", "admin_read", "admin_write"))
    robot = Admin(hub, key)
    for path, body in (
        (f"/admin/decisions/{decision}/answer", {"answer": "once"}),
        (f"/admin/decisions/{decision}/answer", {"answer": "always"}),
        ("/admin/rules", {"decision": decision}),
    ):
        status, refused = await robot.ask("POST", path, body)
        assert status == 403, refused
    assert hub.hub_app.inbox.get(decision).state is DecisionState.OPEN
    assert not hub.hub_app.inbox.rules()
    status, _ = await robot.ask("POST", "/admin/keys", {"agent": "puppet", "kind": "person"})
    assert status == 403, "nor does it make itself a person's key"


async def test_t32_whoever_asked_cannot_answer(hub: RunningHub) -> None:
    from interlock.hub.approvals.decision import ApprovalRequest

    key = await hub.new_key("ada", "person")
    question = ApprovalRequest("tool_call", "ada", "person", "busy", "echo", "busy__echo", "May ada?", "a rule")
    decision = await hub.hub_app.inbox.ask(question)
    status, refused = await Admin(hub, key).ask("POST", f"/admin/decisions/{decision.id}/answer", {"answer": "once"})
    assert (status, refused["message"]) == (403, "the asker cannot answer its own request")
    second = Admin(hub, await hub.new_key("bob", "person"))
    assert (await second.good("POST", f"/admin/decisions/{decision.id}/answer", {"answer": "once"}))["decision"]


def filled(address: Operation) -> str:
    return (
        address.path.replace("{server}", "busy").replace("{seq}", "1").replace("{id}", "abc").replace("{agent}", "ci")
    )


@pytest.mark.parametrize("address", ADDRESSED, ids=lambda address: f"{address.verb} {address.path}")
async def test_t15_no_address_opens_without_a_key_that_has_the_right(
    shared_hub: RunningHub, address: Operation
) -> None:
    hub = shared_hub
    path = filled(address)
    reader = await hub.new_key("reader", "person", permissions=("admin_read",))
    agent = await hub.new_key("agent", "agent")
    greedy = await hub.new_key("greedy", "agent", permissions=("invoke:**", "admin_read", "admin_write"))
    writer = await hub.new_key("writer", "person", permissions=("admin_write",))
    if address.right == "admin_read":
        assert (await Admin(hub, writer).ask(address.verb, path, None))[0] == 403, "the right to change shows nothing"
    for key, expected in ((None, 401), ("ilk_garbage", 401), (agent, 403)):
        status, body = await Admin(hub, key).ask(address.verb, path, None)
        assert status == expected, (key, body)
        assert {"code", "message", "error_type", "trace_id"} <= body.keys()
    if address.right == "admin_write":
        for key in (reader, greedy):
            assert (await Admin(hub, key).ask(address.verb, path, None))[0] == 403


@pytest.mark.parametrize(
    "headers", [{"origin": "https://evil.example"}, {"host": "evil.example"}], ids=["origin", "host"]
)
async def test_t5_a_page_from_elsewhere_is_refused_though_it_has_a_key(
    shared_admin: Admin, headers: dict[str, str]
) -> None:
    status, _ = await shared_admin.ask("GET", "/admin/status", None, **headers)
    assert status == 403


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/admin/keys", b"[]"),
        ("/admin/keys", b"{"),
        ("/admin/keys", b'{"agent":"a","agent":"b"}'),
        ("/admin/keys", {"agent": "a", "surprise": 1}),
        ("/admin/keys", {"agent": 5}),
        ("/admin/keys/ci/rotate", {"agent": "other"}),
        ("/admin/decisions/abc/answer", {"answer": "maybe"}),
    ],
)
async def test_a_request_that_means_nothing_is_refused_with_the_reason(
    shared_admin: Admin, path: str, body: object
) -> None:
    status, refused = await shared_admin.ask("POST", path, body)
    assert status == 400
    assert refused["message"]


async def test_t15_nobody_without_the_right_learns_of_parameters(shared_hub: RunningHub) -> None:
    agent = Admin(shared_hub, await shared_hub.new_key("curious", "agent"))
    for verb, path, body in (
        ("POST", "/admin/keys", b"{"),
        ("POST", "/admin/keys", {"surprise": 1}),
        ("GET", "/admin/audit?surprise=1", None),
        ("GET", "/admin/audit?most=x", None),
    ):
        assert (await agent.ask(verb, path, body))[0] == 403, (path, str(body)[:30])


async def test_a_parameter_that_is_given_twice_is_refused(shared_admin: Admin) -> None:
    for path in ("/admin/audit?most=1&most=2", "/admin/audit/1?seq=2", "/admin/audit?most=1&most=1"):
        status, refused = await shared_admin.ask("GET", path)
        assert (status, refused["message"]) == (400, "a parameter is given twice")


async def test_a_body_has_a_bound(shared_admin: Admin) -> None:
    """Spaces around an object mean nothing, so that only the length decides."""
    about = b'{"agent":"nobody"}'
    for length, expected in ((MAX_BODY, 200), (MAX_BODY + 1, 413)):
        status, answer = await shared_admin.ask("POST", "/admin/keys", about.ljust(length))
        assert status == expected, answer


@pytest.mark.parametrize("number", ["99999999999999999999999999", str(2**63), "-1", "0", "x", "1.5"])
@pytest.mark.parametrize(
    "path", ["/admin/audit?before={}", "/admin/audit?most={}", "/admin/audit/{}", "/admin/grants?most={}"]
)
async def test_a_number_that_nothing_can_hold_is_refused(shared_admin: Admin, path: str, number: str) -> None:
    status, refused = await shared_admin.ask("GET", path.format(number))
    assert (status, refused["error_type"]) == (400, "InvalidParams")


async def test_a_parameter_of_the_control_socket_is_none_of_the_api(shared_admin: Admin) -> None:
    for verb, path, body in (
        ("GET", "/admin/decisions?follow=true", None),
        ("POST", "/admin/rules", {"decision": "x", "terminal": True}),
    ):
        status, refused = await shared_admin.ask(verb, path, body)
        assert (status, refused["message"].startswith("no parameter")) == (400, True)


async def test_every_route_is_an_operation_of_the_table(shared_hub: RunningHub) -> None:
    routes = admin_routes(shared_hub.hub_app, Operations(shared_hub.hub_app, lambda: None))
    served = {str(route.path).replace(":path", "") for route in routes}
    assert served == {operation.path for operation in ADDRESSED}
    assert len({(operation.verb, operation.path) for operation in ADDRESSED}) == len(ADDRESSED)


@pytest.mark.parametrize("operation", ADDRESSED, ids=lambda operation: operation.name)
async def test_an_operation_that_raises_is_answered_over_http(
    shared_hub: RunningHub, shared_admin: Admin, monkeypatch: pytest.MonkeyPatch, operation: Operation
) -> None:
    monkeypatch.setattr("interlock.hub.admin.operations.OPERATIONS", broken(operation))
    values = sample(operation)
    path = operation.path
    for name in [name for name in values if f"{{{name}}}" in path]:
        path = path.replace(f"{{{name}}}", str(values.pop(name)))
    if operation.verb != "POST":
        path += "?" + "&".join(f"{name}={value}" for name, value in values.items())
    status, refused = await shared_admin.ask(operation.verb, path, values if operation.verb == "POST" else None)
    assert (status, refused["error_type"]) == (500, "InternalError"), refused
    assert "secret detail" not in json.dumps(refused)
    assert any("secret detail" in line.text for line in shared_hub.hub_app.logs.tail("hub", 10))


async def test_the_record_is_searched_shown_and_verified_and_says_who_did_what(hub: RunningHub, admin: Admin) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    parent = f"00-{trace}-b7ad6b7169203331-01"
    status, _ = await admin.ask("POST", "/admin/keys", {"agent": "ci"}, traceparent=parent)
    assert status == 200
    (entry,) = (await admin.good("GET", "/admin/audit?event=dev.interlock.key_created"))["entries"]
    assert (entry["record"]["actor"], entry["record"]["actor_kind"]) == ("ada", "person")
    assert entry["record"]["trace"] == trace
    assert (await admin.good("GET", f"/admin/audit/{entry['seq']}"))["entry"] == entry
    assert (await admin.good("POST", "/admin/audit/verify"))["sound"] is True
    before = await admin.good("GET", f"/admin/audit?before={entry['seq']}&most=1")
    assert [found["seq"] for found in before["entries"]] == [entry["seq"] - 1]


async def test_status_why_and_restart_are_the_operators(hub: RunningHub, admin: Admin) -> None:
    assert (await admin.good("GET", "/admin/status"))["servers"][0]["id"] == "busy"
    wish = {"agent": "careful", "tool": "busy__echo", "arguments": {"text": "a"}}
    hub.key("careful")
    assert (await admin.good("POST", "/admin/why", wish))["judgement"]["outcome"] == "asked"
    assert "state" in await admin.good("POST", "/admin/servers/busy/restart")


async def test_the_openapi_document_has_the_admin_api_for_whoever_may_use_it(hub: RunningHub, admin: Admin) -> None:
    document = await admin.good("GET", "/openapi.json")
    told = {(verb.upper(), path) for path, item in document["paths"].items() for verb in item if "/admin" in path}
    assert told == {(address.verb, address.path) for address in ADDRESSED}
    reader = Admin(hub, await hub.new_key("reader", "agent", permissions=("admin_read", "invoke:**")))
    read = (await reader.good("GET", "/openapi.json"))["paths"]
    assert "post" not in read["/admin/keys"]
    agent = Admin(hub, hub.key("careful"))
    assert not [path for path in (await agent.good("GET", "/openapi.json"))["paths"] if "/admin" in path]
    anonymous = Admin(hub, None)
    assert not [path for path in (await anonymous.good("GET", "/openapi.json"))["paths"] if "/admin" in path]


async def test_t34_what_somebody_may_not_administer_is_in_the_record_with_who_tried(hub: RunningHub) -> None:
    decision = await asked(hub)
    agent, robot = await hub.new_key("agent"), await hub.new_key("robot", "admin")
    assert (await Admin(hub, agent).ask("POST", "/admin/keys", {"agent": "puppet"}))[0] == 403
    assert (await Admin(hub, robot).ask("POST", f"/admin/decisions/{decision}/answer", {"answer": "once"}))[0] == 403
    assert (await Admin(hub, robot).ask("GET", "/admin/decisions/nope"))[0] == 404
    about = {"entry_type": "server_grant", "agent_id": "agent", "server_id": "busy", "permission": "allow"}
    assert "error" in await RawClient(hub.url + "/mcp", agent).modern("mgp/access/grant", about)
    path = "/admin/audit?event=dev.interlock.call_blocked"
    entries = (await Admin(hub, robot).good("GET", path))["entries"]
    told = [(entry["record"]["actor"], entry["record"]["name"], entry["result"]) for entry in entries]
    assert told == [
        ("agent", "POST /admin/keys", "BLOCKED"),
        ("robot", "POST /admin/decisions/{id}/answer", "BLOCKED"),
        ("agent", "mgp/access/grant", "BLOCKED"),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "team/ci",
        "a b",
        "ünïcode",
        "100%",
        "ci/rotate",
        "rotate",
        "ci/rotate/rotate",
        "/rotate",
        "a//b/",
        "a%2Fb",
        "what?x=1#y",
        "...",
        "person@example.com",
    ],
)
async def test_whoever_has_a_key_can_lose_it_whatever_the_name(shared_admin: Admin, name: str) -> None:
    admin = shared_admin
    await admin.good("POST", "/admin/keys", {"agent": name})
    place = f"/admin/keys/{quote(name, safe='')}"
    assert (await admin.good("POST", f"{place}/rotate"))["key"]
    assert await admin.good("DELETE", place) == {"revoked": 1}


async def test_a_name_that_ends_like_an_address_is_not_the_one_before_it(hub: RunningHub, admin: Admin) -> None:
    for name in ("ci", "ci/rotate"):
        await admin.good("POST", "/admin/keys", {"agent": name})
    await admin.good("DELETE", "/admin/keys/ci/rotate")
    assert {key["principal"] for key in (await admin.good("GET", "/admin/keys"))["keys"]} == {"ada", "ci"}
    assert (await admin.ask("POST", "/admin/keys/ci/rotate/rotate"))[0] == 404
    await admin.good("POST", "/admin/keys/ci/rotate")
    for method, path in (("POST", "/admin/keys/ci"), ("GET", "/admin/keys/ci/rotate"), ("PUT", "/admin/keys/ci")):
        status, answer = await admin.ask(method, path)
        assert (status, answer["error_type"]) == (405, "InvalidRequest")


@pytest.mark.parametrize("name", [".", "..", "a/..", "../b", "a/./b", "a\\b", "https://login.example.com#alice"])
async def test_a_name_that_no_address_can_hold_or_that_is_a_tokens_gets_no_key(shared_admin: Admin, name: str) -> None:
    status, answer = await shared_admin.ask("POST", "/admin/keys", {"agent": name})
    assert (status, answer["suggestions"][0].startswith("choose a name")) == (400, True)


@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        (["invoke:busy__echo"], 200),
        (["invoke:busy__e*", "read:busy__*"], 200),
        (["invoke:busy__*", "admin_write"], 200),
        (["invoke:busy__*", "admin_read"], 403),
        (["read:other__x"], 200),
        (["invoke:other__x"], 403),
        (["read:other__*"], 403),
        (["invoke:*"], 403),
        (["invoke:busy__**"], 403),
        (["invoke:**"], 403),
        (["list_all"], 403),
        (None, 403),
    ],
)
async def test_nobody_hands_out_more_than_their_own_key_permits(
    hub: RunningHub, wanted: list[str] | None, status: int
) -> None:
    own = ("invoke:busy__*", "read:other__x", "admin_write")
    narrow = Admin(hub, await hub.new_key("narrow", "person", permissions=own))
    told, answer = await narrow.ask("POST", "/admin/keys", {"agent": "child", "permissions": wanted})
    assert told == status, answer
    await hub.new_key("wide", permissions=None if wanted is None else tuple(wanted))
    assert (await narrow.ask("POST", "/admin/keys/wide/rotate"))[0] == status


async def test_nobody_hands_out_another_profile_than_the_one_they_are_held_to(tmp_path: Path) -> None:
    profiles = {"work": ProfileSettings(), "play": ProfileSettings()}
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, profiles=profiles) as hub:
        held = Admin(hub, await hub.new_key("held", "person", profile="work"))
        assert (await held.ask("POST", "/admin/keys", {"agent": "a", "profile": "work"}))[0] == 200
        assert (await held.ask("POST", "/admin/keys", {"agent": "a", "profile": "play"}))[0] == 403
        assert (await held.ask("POST", "/admin/keys", {"agent": "a"}))[0] == 403
