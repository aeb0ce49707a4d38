"""Tasks that a server begins at a client of 2025-11-25: a sampling or an elicitation that it comes for later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from interlock.config.settings import ServerSettings
from interlock.wire.ids import read_id

from .instructed_server import TASK, InstructedServer
from .legacy_client import LegacyClient, answers
from .modern_client import ModernClient
from .running_hub import running_hub, text_of, until
from .test_bridges_questions import ALL, FORM, SAMPLING, asks, instructed_hub, steps

RELATED = "io.modelcontextprotocol/related-task"
HOSTING: dict[str, Any] = {
    **ALL,
    "tasks": {"list": {}, "cancel": {}, "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}},
}
AS_TASK = {**SAMPLING, "task": {"ttl": 60_000}}


class Host(LegacyClient):
    """A client that does what it is asked as a task, under an id of its own."""

    def __init__(self, url: str, key: str | None = None) -> None:
        super().__init__(url, {}, key)
        self.status: dict[str, str] = {}
        self.got: list[tuple[str, Any]] = []

    def state(self, id: str) -> dict[str, Any]:
        times = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}
        return {"taskId": id, "status": self.status[id], **times, "ttl": 60_000}

    async def _answer(self, message: Any) -> None:
        method, params = message["method"], message.get("params", {})
        self.got.append((method, params))
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        id_ = params.get("taskId")
        if "task" in params:
            id_ = f"mine-{len(self.status)}"
            self.status[id_] = "working"
            reply["result"] = {"task": self.state(id_)}
        elif method == "tasks/list":
            reply["result"] = {"tasks": [self.state(each) for each in self.status]}
        elif id_ not in self.status:
            reply["error"] = {"code": -32602, "message": f"no task {id_}"}
        elif method == "tasks/get":
            self.status[id_] = "completed"
            reply["result"] = self.state(id_)
            await self.post(told("notifications/tasks/status", self.state(id_)))
        elif method == "tasks/cancel":
            self.status[id_] = "cancelled"
            reply["result"] = self.state(id_)
        else:
            reply["result"] = {**answers("ada")["sampling/createMessage"], "_meta": {RELATED: {"taskId": id_}}}
        await self.post(json.dumps(reply).encode())


def told(method: str, params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


def about(id: int, what: str, task: str = TASK) -> tuple[dict[str, Any], dict[str, Any]]:
    return asks(id, f"tasks/{what}", {"taskId": task}), {"wait": id}


async def test_a_server_begins_a_task_at_its_client_and_comes_for_the_outcome(tmp_path: Path) -> None:
    async with instructed_hub(tmp_path) as (hub, instructed):
        host = Host(hub.url + "/mcp")
        await host.initialize(HOSTING)
        doing = steps(
            asks(1, "sampling/createMessage", AS_TASK),
            {"wait": 1},
            *about(2, "get"),
            {"until": "notifications/tasks/status"},
            *about(3, "result"),
            *about(4, "list"),
        )
        begun, seen, result, listed = json.loads(text_of(await host.call("a__do", doing)))
        assert instructed.asked("initialize")[-1]["capabilities"]["tasks"] == HOSTING["tasks"]
        id_ = begun["result"]["task"]["taskId"]
        named, session = read_id(id_), read_id(host.session)
        assert named is not None
        assert session is not None
        assert named[0] == session[0]
        assert (seen["result"]["taskId"], seen["result"]["status"]) == (id_, "completed")
        assert instructed.asked("notifications/tasks/status")[0]["taskId"] == id_
        assert result["result"]["content"]["text"] == "hello from ada"
        assert result["result"]["_meta"][RELATED] == {"taskId": id_}
        assert [task["taskId"] for task in listed["result"]["tasks"]] == [id_]
        assert [params.get("taskId") for method, params in host.got if method != "tasks/list"] == [
            None,
            "mine-0",
            "mine-0",
        ]
        assert host.got[0][1]["task"] == {"ttl": 60_000}


async def test_a_servers_task_at_a_client_can_be_cancelled(tmp_path: Path) -> None:
    async with instructed_hub(tmp_path) as (hub, _):
        host = Host(hub.url + "/mcp")
        await host.initialize(HOSTING)
        form = {**FORM, "task": {}}
        doing = steps(asks(1, params=form), {"wait": 1}, *about(2, "cancel"))
        begun, cancelled = json.loads(text_of(await host.call("a__do", doing)))
        assert cancelled["result"]["taskId"] == begun["result"]["task"]["taskId"]
        assert host.status == {"mine-0": "cancelled"}


async def test_a_server_finds_no_task_of_a_client_but_its_own(tmp_path: Path) -> None:
    async with InstructedServer().http() as one, InstructedServer().http() as two:
        servers = {
            name: ServerSettings(url=instructed.url, era="legacy") for name, instructed in (("a", one), ("b", two))
        }
        async with running_hub(tmp_path, servers) as hub:
            host = Host(hub.url + "/mcp")
            await host.initialize(HOSTING)
            begin = (asks(1, "sampling/createMessage", AS_TASK), {"wait": 1})
            (begun,) = json.loads(text_of(await host.call("a__do", steps(*begin))))
            id_ = begun["result"]["task"]["taskId"]
            await host.call("b__do", steps(*begin), id=2)
            asked = len(host.got)
            for foreign in (id_, "mine-0", "mine-1", "never was"):
                for what in ("get", "result", "cancel"):
                    (said,) = json.loads(text_of(await host.call("b__do", steps(*about(5, what, foreign)), id=3)))
                    assert said["error"]["code"] == -32602
            assert len(host.got) == asked, "the client hears nothing of it"
            (listed,) = json.loads(text_of(await host.call("b__do", steps(*about(6, "list")), id=4)))
            assert len(host.status) == 2
            assert len(listed["result"]["tasks"]) == 1
            await host.post(told("notifications/tasks/status", host.state("mine-1")))
            await until(lambda: len(two.asked("notifications/tasks/status")) == 1)
            assert one.asked("notifications/tasks/status") == []


async def test_who_cannot_host_tasks_is_asked_as_ever(tmp_path: Path) -> None:
    async with instructed_hub(tmp_path) as (hub, instructed):
        old, new = LegacyClient(hub.url + "/mcp", answers("ada")), ModernClient(hub.url + "/mcp", answers("ada"))
        await old.initialize(ALL)
        new.capabilities = {**ALL, "tasks": HOSTING["tasks"]}
        doing = steps(asks(1, "sampling/createMessage", AS_TASK), {"wait": 1}, *about(2, "get", "x"))
        for answer in (await old.call("a__do", doing), await new.call("a__do", doing)):
            sampled, refused = json.loads(text_of(answer))
            assert sampled["result"]["content"]["text"] == "hello from ada"
            assert "error" in refused
        assert all("tasks" not in said["capabilities"] for said in instructed.asked("initialize"))
        assert "task" not in new.asked[0]["params"]
