"""Translates a client's declarations between the eras: from a session into each request, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from interlock.protocols.mcp.capabilities import APPS
from interlock.protocols.mcp.meta import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    MODERN_KEYS,
    PROTOCOL_VERSION,
    members,
)
from interlock.protocols.mcp.revisions import Revision
from interlock.protocols.mcp.tasks import EXTENSION as TASKS
from interlock.protocols.mgp.negotiation import EXTENSION_KEY as MGP
from interlock.wire.bounded_cache import cache_short

_CROSSING: Final = ("sampling", "elicitation", "roots", "experimental")
"""The capabilities with the same meaning in both eras. Tasks differ between the eras, so they are not translated."""
OF_EACH_HOP: Final = (TASKS, MGP)
"""Extensions that each hop negotiates separately."""


@cache_short(1024)
def capabilities_across(raw: bytes) -> bytes:
    """A client's capabilities for a server of the other era."""
    declared = members(raw)
    kept = {name: declared[name] for name in _CROSSING if name in declared}
    if "roots" in kept:
        # The other era has no notification of changed roots.
        kept["roots"] = msgspec.Raw(b"{}")
    extensions = members(bytes(declared["extensions"])) if "extensions" in declared else {}
    if APPS in extensions:
        return msgspec.json.encode({**kept, "extensions": {APPS: extensions[APPS]}})
    return msgspec.json.encode(kept)


@cache_short(1024)
def capabilities_along(raw: bytes) -> bytes:
    """A client's capabilities for a server of the same era."""
    declared = members(raw)
    kept: dict[str, object] = {name: declared[name] for name in (*_CROSSING, "tasks") if name in declared}
    if "extensions" in declared:
        further = members(bytes(declared["extensions"]))
        kept["extensions"] = {name: value for name, value in further.items() if name not in OF_EACH_HOP}
    return msgspec.json.encode(kept)


@cache_short(1024)
def request_meta(
    revision: Revision, capabilities: bytes, client_info: bytes | None, log_level: str | None
) -> Mapping[str, object]:
    """The `_meta` that the client of a session would send with each request in the stateless era."""
    meta: dict[str, object] = {
        PROTOCOL_VERSION: revision.name,
        CLIENT_CAPABILITIES: msgspec.Raw(capabilities_across(capabilities)),
    }
    if client_info is not None and members(client_info):
        meta[CLIENT_INFO] = msgspec.Raw(client_info)
    if log_level is not None:
        meta[LOG_LEVEL] = log_level
    return meta


def with_request_meta(own: bytes | None, meta: Mapping[str, object]) -> bytes:
    """A request's `_meta` with these members, which replace its own values of reserved keys."""
    kept = {} if own is None else {key: value for key, value in members(own).items() if key not in MODERN_KEYS}
    return msgspec.json.encode({**kept, **meta})
