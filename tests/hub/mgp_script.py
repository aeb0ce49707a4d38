"""Writes what a governed server is to say, runs a hub before it, and reads what the server heard."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from interlock.config.settings import ApprovalSettings, HubSettings, PermissionSettings, ServerSettings, TimeoutSettings
from interlock.config.value_types import Mode
from interlock.hub.auth.principals import Principal

from .mgp_http_server import MgpHttpServer
from .running_hub import RawClient, RunningHub, child, running_hub

ADA = Principal("person:ada", "person")
TRANSPORTS = ("stdio", "http")
ERAS = ("legacy", "modern")


def tool(name: str, **more: Any) -> dict[str, Any]:
    """A tool's definition."""
    return {"name": name, "description": f"The tool {name}.", "inputSchema": {"type": "object"}, **more}


def needing(name: str, *permissions: str, **more: Any) -> dict[str, Any]:
    """One that says which permissions it needs."""
    return tool(name, security={"risk_level": "safe", "permissions_required": list(permissions), **more})


class MgpScript:
    """The file that the server reads, and the one that it writes."""

    def __init__(self, folder: Path, **said: Any) -> None:
        self.folder = folder
        self.path = folder / "script.json"
        self.said: dict[str, Any] = said
        self.say()

    def say(self, **more: Any) -> None:
        """Change what it says from now on."""
        self.said |= more
        self.path.write_text(json.dumps(self.said))

    @property
    def heard(self) -> list[dict[str, Any]]:
        """Every message it got."""
        log = self.path.with_suffix(".log")
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def methods(self) -> list[str]:
        """The methods of all of them, in order."""
        return [message["method"] for message in self.heard if "method" in message]

    def params(self, method: str) -> list[Any]:
        """The params of each message of one method."""
        return [message.get("params") for message in self.heard if message.get("method") == method]

    @contextlib.asynccontextmanager
    async def running_hub(
        self,
        transport: str = "stdio",
        *,
        wait: bool = True,
        mode: Mode = "guard",
        hold_s: float = 0,
        waits: TimeoutSettings | None = None,
        **settings: Any,
    ) -> AsyncIterator[RunningHub]:
        """A hub with this server as `s`."""
        hub = HubSettings(
            mode=mode,
            timeouts=waits or TimeoutSettings(start_s=30, discovery_s=10, tool_s=20),
            approvals=ApprovalSettings(hold_s=hold_s, valid_s=600),
        )
        async with contextlib.AsyncExitStack() as stack:
            if transport == "http":
                web = await stack.enter_async_context(MgpHttpServer(self.path))
                server = ServerSettings(url=web.url, **settings)
            else:
                server = child("mgp_server.py", str(self.path), **settings)
            yield await stack.enter_async_context(running_hub(self.folder, {"s": server}, hub=hub, wait=wait))


def policy(name: str = "interactive", **more: Any) -> PermissionSettings:
    """A server's permission settings."""
    return PermissionSettings(policy=name, **more)  # type: ignore[arg-type]


async def listed(hub: RunningHub) -> list[str]:
    """The tools that an agent sees."""
    return [found["name"] for found in (await RawClient(hub.url + "/mcp").modern("tools/list"))["result"]["tools"]]


async def call(hub: RunningHub, name: str, **arguments: Any) -> Any:
    """The outcome of a call of a tool of `s`."""
    return await RawClient(hub.url + "/mcp").modern("tools/call", {"name": f"s__{name}", "arguments": arguments})


def error_of(answer: Any) -> Any:
    """The error's details, whichever way the refusal was told."""
    if "error" in answer:
        return answer["error"]["data"]
    return answer["result"]["_meta"]["dev.interlock/error"]
