"""Tools that an agent writes because none fits its need (MGP, Autonomous Tool Generation: status `creating`).

The operator allows it for each agent (`create_tools`). The code passes code safety at `strict` and runs contained. No
tool is created where nothing can contain it.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, Protocol

import msgspec

from interlock.config.settings import Config
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Caller
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


class Create(msgspec.Struct, frozen=True):
    """The tool that an agent wrote."""

    request_id: Annotated[str, msgspec.Meta(max_length=64)]
    name: Annotated[str, msgspec.Meta(pattern=NAME)]
    source: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_SOURCE_CHARS)]


class CreatedTool(msgspec.Struct, frozen=True):
    """A tool that was registered, or that waits for a person."""

    server: str
    decision: str
    """The approval request; empty if none was needed."""


class Registrar(Protocol):
    """Registers the tools that agents write."""

    async def why_uncontained(self) -> str:
        """Why no server can be contained here; empty if one can."""

    def allowed_imports(self) -> list[str]:
        """The imports that code safety allows."""

    async def create_tool(
        self, by: Principal, server: str, create: Create, why: str, *, approved: bool, trace: str
    ) -> CreatedTool:
        """Judge and register a tool. Raises Fault."""


class OpenCreation(msgspec.Struct):
    """A request that was answered with `creating`."""

    owner: str
    until: float
    attempts: int = 0


class Creations:
    """The tools that agents are writing."""

    def __init__(self, registrar: Registrar, config: Callable[[], Config]) -> None:
        self._registrar = registrar
        self._config = config
        self._open: dict[str, OpenCreation] = {}

    async def offer(self, caller: Caller, request_id: str) -> tuple[dict[str, object] | None, str]:
        """How the agent can write the missing tool, or None and why it cannot."""
        if self._mode(caller) == "off":
            return None, NOT_ALLOWED
        if uncontained := await self._registrar.why_uncontained():
            return None, f"tools cannot be created: {uncontained}"
        now = time.monotonic()
        self._open = {id_: each for id_, each in self._open.items() if each.until > now}
        owner = _owner(caller)
        own = sum(each.owner == owner for each in self._open.values())
        if len(self._open) >= MAX_OPEN or own >= MAX_OPEN_PER_AGENT:
            return None, "too many tools are being created; write or leave one of them first"
        self._open[request_id] = OpenCreation(owner, now + OPEN_S)
        rules = {
            "level": "strict",
            "language": "python",
            "max_code_size_bytes": MAX_SOURCE_CHARS,
            "allowed_imports": self._registrar.allowed_imports(),
        }
        return {"how": HOW, "example": EXAMPLE, "expires_in_s": int(OPEN_S), "code_safety": rules}, ""

    async def create(self, caller: Caller, create: Create, why: str, trace: str) -> CreatedTool:
        """Register the tool that an agent wrote. A refused source can be corrected and sent again. Raises Fault."""
        opened = self._open.get(create.request_id)
        mode = self._mode(caller)
        if opened is None or opened.owner != _owner(caller) or opened.until <= time.monotonic() or mode == "off":
            hint = "request tools without `create` first; the answer `creating` has a request_id"
            raise Fault("NOT_FOUND", "no tool is being created under this request_id", hint=hint)
        if not re.search(rf"^(?:async )?def {re.escape(create.name)}\(", create.source, re.MULTILINE):
            raise Fault("INVALID_PARAMS", f"the source defines no function `{create.name}`", hint="name the tool")
        opened.attempts += 1
        if opened.attempts >= MAX_ATTEMPTS:
            del self._open[create.request_id]
        server = f"made-{secrets.token_hex(4)}"
        approved = mode == "auto_approve"
        made = await self._registrar.create_tool(caller.principal, server, create, why, approved=approved, trace=trace)
        self._open.pop(create.request_id, None)
        return made

    def _mode(self, caller: Caller) -> Literal["off", "ask", "auto_approve"]:
        principal = caller.principal
        agent = self._config().agents.get(principal.id) if principal.kind == "agent" else None
        # The address of one server shows no tool of another.
        return "off" if agent is None or caller.list_scope.view.bare else agent.create_tools


def _owner(caller: Caller) -> str:
    return f"{caller.principal.kind}:{caller.principal.id}"
