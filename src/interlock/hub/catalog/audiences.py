"""Audiences: who has a tool or a resource that not everybody has.

A server may offer tools only to clients that declare a capability, and further items only on one private connection.
Each such item names its audiences. An audience is a set of declared capabilities, or a private connection.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from interlock.hub.catalog.items import Item, Tool
from interlock.protocols.mcp.capabilities import ClientCapabilities
from interlock.wire.errors import Fault

DECLARES: Final = "declares:"
_TASKS: Final[dict[str, object]] = {"requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}}


def declared_audience(capabilities: ClientCapabilities) -> str:
    """The audience of all clients that declare the same; empty for those that declare nothing of it."""
    if not capabilities.answers_servers:
        return ""
    declared = {
        "elicitation.form": capabilities.elicitation_form,
        "elicitation.url": capabilities.elicitation_url,
        "roots": capabilities.roots,
        "sampling": capabilities.sampling,
        "sampling.tools": capabilities.sampling_tools,
        "tasks": capabilities.hosts_tasks,
    }
    return DECLARES + ",".join(name for name, is_declared in declared.items() if is_declared)


def capabilities_of(audience: str) -> bytes:
    """The capabilities that the clients of an audience declare."""
    capabilities: dict[str, dict[str, object]] = {}
    for name in audience.removeprefix(DECLARES).split(","):
        capability, _, feature = name.partition(".")
        features = capabilities.setdefault(capability, dict(_TASKS) if capability == "tasks" else {})
        if feature:
            features[feature] = {}
    return msgspec.json.encode(capabilities)


def has(item: Item, audiences: Iterable[str]) -> bool:
    """Whether a caller of these audiences has a tool or a resource."""
    return item.only_for is None or not item.only_for.isdisjoint(audiences)


def is_private(tool: Tool) -> bool:
    """Whether only the owners of private connections have a tool, so that nobody else learns its name."""
    return tool.only_for is not None and not any(each.startswith(DECLARES) for each in tool.only_for)


def refused(tool: Tool, name: str) -> Fault | None:
    """Why a caller without the tool cannot call it; None if others must not learn of the tool."""
    assert tool.only_for is not None
    sets = [frozenset(each.removeprefix(DECLARES).split(",")) for each in tool.only_for if each.startswith(DECLARES)]
    if not sets:
        return None
    needed = frozenset.intersection(*sets) or min(sets, key=len)
    message = f"{name[:200]} is offered only to clients that declare {', '.join(sorted(needed))}"
    hint = "use a client that declares it, or another tool"
    return Fault("MISSING_CAPABILITY", message, hint=hint, data={"requiredCapabilities": _as_object(needed)})


def _as_object(names: frozenset[str]) -> dict[str, object]:
    capabilities: dict[str, object] = msgspec.json.decode(capabilities_of(DECLARES + ",".join(sorted(names))))
    return capabilities
