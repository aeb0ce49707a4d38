"""Results that the hub makes itself: its introduction, its capabilities and its lists. Pure: values in, JSON out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from interlock.protocols.mcp.capabilities import APPS, LIVE_EXTENSION
from interlock.protocols.mcp.capability_projection import OF_EACH_HOP
from interlock.protocols.mcp.meta import SERVER_INFO
from interlock.protocols.mcp.revisions import MODERN_NAMES, Revision

MAX_MIME_TYPES: Final = 16
_MIME_TYPE: Final = re.compile(r"[\w.+-]{1,64}/[\w.+-]{1,64}(?:;[\w-]{1,32}=[\w.+-]{1,64}){0,2}", re.ASCII)
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
    """The extensions of the only server in a view, without those that client and hub agree on themselves."""
    if not isinstance(extensions, Mapping):
        return {}
    return {str(name): value for name, value in extensions.items() if name not in (*OF_EACH_HOP, LIVE_EXTENSION)}


def with_apps(offered: Mapping[str, object], servers: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """The capabilities of a view of many servers, with MCP Apps if one of them has it.

    MCP Apps has no methods of its own. Methods of other extensions would not name their server, so those are offered at
    the server's own address only. Of a server's declaration only media types pass, not its texts.
    """
    extensions = [found for each in servers if isinstance(found := each.get("extensions"), Mapping)]
    declared = [found[APPS] for found in extensions if APPS in found]
    if not declared:
        return dict(offered)
    lists = [each.get("mimeTypes") for each in declared if isinstance(each, Mapping)]
    listed = (each for found in lists if isinstance(found, list) for each in found[:MAX_MIME_TYPES])
    types = sorted({each for each in listed if isinstance(each, str) and _MIME_TYPE.fullmatch(each)})
    return {**offered, "extensions": {APPS: {"mimeTypes": types[:MAX_MIME_TYPES]} if types else {}}}


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


def before_list(member: str, info: bytes, *, modern: bool) -> bytes:
    """The beginning of a whole list as one page. The items and a brace follow."""
    if not modern:
        return b'{"%b":' % member.encode()
    return b'{"resultType":"complete","ttlMs":%d,"cacheScope":"private","_meta":{"%b":%b},"%b":' % (
        TTL_MS,
        SERVER_INFO.encode(),
        info,
        member.encode(),
    )
