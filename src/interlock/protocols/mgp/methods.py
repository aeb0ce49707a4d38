"""The table of MGP's methods that clients send, with the extension of each.

A method exists only for a client that agreed on its extension (MGP, Design Principles: features activate only when both
sides negotiate them).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from interlock.protocols.mcp.dialect import Dialect
from interlock.wire.errors import Fault
from interlock.wire.json_values import JSON_ERRORS

P = TypeVar("P", bound=msgspec.Struct)

METHODS: Final[Mapping[str, str]] = {
    "mgp/access/query": "access_control",
    "mgp/access/grant": "access_control",
    "mgp/access/revoke": "access_control",
    "mgp/discovery/list": "discovery",
    "mgp/discovery/register": "discovery",
    "mgp/discovery/deregister": "discovery",
    "mgp/callback/respond": "bidirectional",
    "mgp/events/subscribe": "bidirectional",
    "mgp/events/unsubscribe": "bidirectional",
    "mgp/health/ping": "lifecycle",
    "mgp/health/status": "lifecycle",
    "mgp/permission/request": "security",
    "mgp/permission/await": "security",
    "mgp/permission/response": "security",
    "mgp/permission/grant": "security",
    "mgp/stream/cancel": "streaming",
    "mgp/lifecycle/shutdown": "lifecycle",
    "mgp/tools/discover": "tool_discovery",
    "mgp/tools/request": "tool_discovery",
    "mgp/tools/session": "tool_discovery",
    "mgp/tools/session/evict": "tool_discovery",
}


def agreed_on(dialect: Dialect, extension: str) -> bool:
    """Whether a client agreed on an extension."""
    return dialect.mgp is not None and extension in dialect.mgp.extensions


def check_agreed(dialect: Dialect, method: str) -> None:
    """Raise METHOD_NOT_FOUND for a client that did not agree on the extension of a method."""
    if not agreed_on(dialect, METHODS[method]):
        hint = f"offer MGP's extension `{METHODS[method]}` in your capabilities"
        raise Fault("METHOD_NOT_FOUND", f"{method} is not agreed with this client", hint=hint)


def read_params(params: bytes, kind: type[P]) -> P:
    """The params of a method. Raises INVALID_PARAMS."""
    try:
        return msgspec.json.decode(params, type=kind)
    except JSON_ERRORS as cause:
        raise Fault("INVALID_PARAMS", str(cause)) from None
