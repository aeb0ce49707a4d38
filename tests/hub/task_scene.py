"""Tasks through the hub, for tests: the server, clients of both eras, and the audit entries of calls."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Literal

from interlock.client import Client
from interlock.config.settings import ServerSettings, TimeoutSettings
from interlock.hub.audit.search import Search, search
from interlock.protocols.mcp.tasks import EXTENSION
from interlock.server import TaskLimits

from .modern_client import ALL, CAPABILITIES
from .running_hub import RunningHub
from .task_server import Jobs, task_server

Form = Literal["legacy", "modern"]
FORMS: list[Form] = ["legacy", "modern"]
DECLARED = {CAPABILITIES: {**ALL, "extensions": {EXTENSION: {}}}}
TIMEOUTS = TimeoutSettings(start_s=30, discovery_s=10, tool_s=20)


async def name(params: dict[str, object]) -> dict[str, object]:
    return {"action": "accept", "content": {"name": str(params["message"]).rstrip("?")}}


@contextlib.asynccontextmanager
async def served(form: Form, jobs: Jobs, limits: TaskLimits | None = None) -> AsyncIterator[dict[str, ServerSettings]]:
    """The server in this process, over HTTP, in one era."""
    async with task_server(jobs, limits).http() as address:
        yield {"t": ServerSettings(url=address.url, era=form)}


def client(hub: RunningHub, form: Form, who: str = "", **more: Any) -> Client:
    """A client of the hub, in one era."""
    headers = {"authorization": f"Bearer {hub.key(who)}"} if who else {}
    return Client(hub.url + "/mcp", era=form, headers=headers, **more)


def text(result: Any) -> str:
    return str(result["content"][0]["text"])


async def outcomes(hub: RunningHub, tool: str = "work") -> list[tuple[str, str]]:
    """The audit entries of a tool's calls: how each ended, and why."""
    await hub.hub_app.recorder.flushed()
    found = await hub.hub_app.store.read(lambda database: search(database, Search(name=tool), 100))
    return [(entry.record.result, entry.record.reason) for entry in found if entry.record.result != "PENDING"]
