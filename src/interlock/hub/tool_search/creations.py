"""Tools that an agent writes because none fits its need (MGP, Autonomous Tool Generation: status `creating`).

The operator allows it for each agent (`create_tools`). The code must pass code safety at `strict`, and runs contained.
Without containment, no tool is created. Open requests are in the store, so that every node can accept the tool of a
request. A request creates at most one tool.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import msgspec

from interlock.config.settings import Config
from interlock.containment.backends import reports
from interlock.hub.calls.call import Caller
from interlock.hub.store_faults import as_faults
from interlock.hub.upstreams.registration.checks import script_rules
from interlock.hub.upstreams.registration.registration import RegistrationParams
from interlock.hub.upstreams.registration.registrations import Registrations
from interlock.store import Collection, Conflict, Store, StoreError
from interlock.wire.errors import Fault

OPEN_S: Final = 900.0
"""How long the agent may take to write the tool."""
MAX_OPEN: Final = 1_000
MAX_OPEN_PER_AGENT: Final = 8
MAX_ATTEMPTS: Final = 8
"""Sources that the hub judges for one request. The agent corrects those that are refused."""
MAX_SOURCE_CHARS: Final = 10_000
NOT_ALLOWED: Final = "the operator does not let you create tools"
NAME: Final = "^[a-z][a-z0-9_]{0,30}$"

CREATE_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "request_id": {"type": "string", "maxLength": 64},
        "name": {"type": "string", "pattern": NAME},
        "source": {"type": "string", "minLength": 1, "maxLength": MAX_SOURCE_CHARS},
    },
    "required": ["request_id", "name", "source"],
    "additionalProperties": False,
}
"""The member `create` of a request. It is listed to nobody: the answer `creating` says how to use it."""
HOW: Final = (
    "No tool fits. Write one: a Python script that defines the tool as below. Then call request_tools again with the "
    "same context and create={request_id, name: the function's name, source: the script}. If your client has no "
    "member `create`, use call_tool with the name request_tools."
)
EXAMPLE: Final = '''from interlock import Server

server = Server("made")


@server.tool
def mean(values: list[float]) -> float:
    """The mean of numbers."""
    return sum(values) / len(values)


if __name__ == "__main__":
    server.run()
'''


class CreateToolParams(msgspec.Struct, frozen=True):
    """The tool that an agent wrote."""

    request_id: Annotated[str, msgspec.Meta(max_length=64)]
    name: Annotated[str, msgspec.Meta(pattern=NAME)]
    source: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_SOURCE_CHARS)]


class CreatedTool(msgspec.Struct, frozen=True):
    """A tool that was registered, or that waits for a person."""

    server: str
    decision: str
    """The approval request; empty if none was needed."""


class OpenCreation(msgspec.Struct, frozen=True):
    """A request that was answered with `creating`."""

    id: str
    principal_name: str = msgspec.field(name="owner")
    until: float
    """The wall clock, as other nodes and later runs read it."""
    attempts: int = 0


CREATIONS: Final = Collection("creations", OpenCreation, key="id")


class ToolCreations:
    """The tools that agents are writing."""

    def __init__(self, registrations: Registrations, config: Callable[[], Config], store: Callable[[], Store]) -> None:
        self._registrations = registrations
        self._config = config
        self._store = store

    async def offer(self, caller: Caller, request_id: str) -> tuple[dict[str, object] | None, str]:
        """How the agent can write the missing tool, or None and why it cannot."""
        if self._mode(caller) == "off":
            return None, NOT_ALLOWED
        if uncontained := await _why_uncontained():
            return None, f"tools cannot be created: {uncontained}"
        with as_faults():
            opened = await self._opened(request_id, caller.principal.name)
        if not opened:
            return None, "too many tools are being created; write or leave one of them first"
        rules = {
            "level": "strict",
            "language": "python",
            "max_code_size_bytes": MAX_SOURCE_CHARS,
            "allowed_imports": [*script_rules().allowed_imports],
        }
        return {"how": HOW, "example": EXAMPLE, "expires_in_s": int(OPEN_S), "code_safety": rules}, ""

    async def create(self, caller: Caller, create: CreateToolParams, why: str, trace: str) -> CreatedTool:
        """Register the tool that an agent wrote. A refused source can be corrected and sent again. Raises Fault."""
        mode = self._mode(caller)
        if mode == "off":
            raise _unknown()
        if not re.search(rf"^(?:async )?def {re.escape(create.name)}\(", create.source, re.MULTILINE):
            raise Fault("INVALID_PARAMS", f"the source defines no function `{create.name}`", hint="name the tool")
        server = f"made-{secrets.token_hex(4)}"
        registration = RegistrationParams(
            server, "python", ("server.py",), justification=why[:2000], source=create.source
        )
        approved = mode == "auto_approve"
        with as_faults():
            taken = await self._take(create.request_id, caller.principal.name)
            try:
                made = await self._registrations.create(caller.principal, registration, approved=approved, trace=trace)
            except (Fault, StoreError):
                await self._reopen(taken)
                raise
        return CreatedTool(made.server_id, made.decision)

    async def _opened(self, id: str, principal_name: str) -> bool:
        """Keep a request open, and forget those whose time is over. Returns False where there are too many."""
        found = [each.value for each in await self._store().find(CREATIONS)]
        now = time.time()
        current = [each for each in found if each.until > now]
        own = sum(each.principal_name == principal_name for each in current)
        async with self._store().transaction() as change:
            for over in [each for each in found if each.until <= now]:
                change.delete(CREATIONS, over.id)
            fits = len(current) < MAX_OPEN and own < MAX_OPEN_PER_AGENT
            if fits:
                change.insert(CREATIONS, OpenCreation(id, principal_name, now + OPEN_S))
        return fits

    async def _take(self, id: str, principal_name: str) -> OpenCreation:
        """Take a request out of the store, so that no other attempt uses it. Raises NOT_FOUND."""
        try:
            async with self._store().transaction() as change:
                found = await change.get(CREATIONS, id)
                if found is None or found.value.principal_name != principal_name or found.value.until <= time.time():
                    raise _unknown()
                change.delete(CREATIONS, id)
        except Conflict:
            raise _unknown() from None  # Another attempt, perhaps on another node, took it first.
        return found.value

    async def _reopen(self, taken: OpenCreation) -> None:
        """Let the agent correct a refused source, up to `MAX_ATTEMPTS` times."""
        if taken.attempts + 1 < MAX_ATTEMPTS:
            async with self._store().transaction() as change:
                change.insert(CREATIONS, msgspec.structs.replace(taken, attempts=taken.attempts + 1))

    def _mode(self, caller: Caller) -> Literal["off", "ask", "auto_approve"]:
        principal = caller.principal
        agent = self._config().agents.get(principal.id) if principal.kind == "agent" else None
        # The address of one server shows no tool of another.
        return "off" if agent is None or caller.list_scope.view.bare else agent.create_tools


async def _why_uncontained() -> str:
    """Why no server can be contained here; empty if one can."""
    found = await asyncio.to_thread(reports)
    if any(not report.missing for report in found):
        return ""
    return "; ".join(f"{report.backend}: {report.missing}" for report in found)


def _unknown() -> Fault:
    hint = "request tools without `create` first; the answer `creating` has a request_id"
    return Fault("NOT_FOUND", "no tool is being created under this request_id", hint=hint)
