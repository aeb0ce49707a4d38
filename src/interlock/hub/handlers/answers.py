"""Results that the hub makes itself: its introduction, its capabilities and its lists. Pure: values in, JSON out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from interlock.protocols.mcp.capabilities import LIVE_EXTENSION
from interlock.protocols.mcp.capability_projection import OF_EACH_HOP
from interlock.protocols.mcp.meta import SERVER_INFO
from interlock.protocols.mcp.revisions import MODERN_NAMES, Revision

TTL_MS: Final = 10_000
"""How long a client may keep a list. Clients that listen get each change at once."""

ALL_CAPABILITIES: Final[Mapping[str, object]] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}


def capabilities(upstream: Mapping[str, object] | None) -> dict[str, object]:
    """The hub's capabilities in a view: for a view of one server those of the server, otherwise all."""
    offered = ALL_CAPABILITIES if upstream is None else {k: v for k, v in ALL_CAPABILITIES.items() if k in upstream}
    if upstream is not None and "resources" in offered:
        resources = upstream["resources"]
        subscribe = isinstance(resources, Mapping) and resources.get("subscribe") is True
        offered = {**offered, "resources": {"subscribe": subscribe, "listChanged": True}}
    extensions = {} if upstream is None else _passed_on(upstream.get("extensions"))
    return {**offered, "extensions": extensions} if extensions else dict(offered)


def _passed_on(extensions: object) -> dict[str, object]:
    """The extensions of the only server in a view, without those that each hop agrees on for itself."""
    if not isinstance(extensions, Mapping):
        return {}
    return {str(name): value for name, value in extensions.items() if name not in (*OF_EACH_HOP, LIVE_EXTENSION)}


def initialize_result(revision: Revision, info: bytes, offered: Mapping[str, object], instructions: str) -> bytes:
    """The result of `initialize` (handshake era)."""
    result: dict[str, object] = {
        "protocolVersion": revision.name,
        "capabilities": offered,
        "serverInfo": msgspec.Raw(info),
    }
    if instructions:
        result["instructions"] = instructions
    return msgspec.json.encode(result)


def discover_result(info: bytes, offered: Mapping[str, object], instructions: str) -> bytes:
    """The result of `server/discover` (stateless era)."""
    result: dict[str, object] = {
        "resultType": "complete",
        "supportedVersions": MODERN_NAMES,
        "capabilities": offered,
        "ttlMs": TTL_MS,
        "cacheScope": "private",
        "_meta": {SERVER_INFO: msgspec.Raw(info)},
    }
    if instructions:
        result["instructions"] = instructions
    return msgspec.json.encode(result)


def list_result(member: str, items: bytes, info: bytes, *, modern: bool) -> bytes:
    """A whole list as one page."""
    if not modern:
        return b'{"%b":%b}' % (member.encode(), items)
    head = b'{"resultType":"complete","ttlMs":%d,"cacheScope":"private","_meta":{"%b":%b},"%b":' % (
        TTL_MS,
        SERVER_INFO.encode(),
        info,
        member.encode(),
    )
    return b"%b%b}" % (head, items)
