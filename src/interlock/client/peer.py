"""How servers and clients introduce themselves. Pure: this module decides the era of a server from its answer."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from interlock.protocols.mcp.intake import preview
from interlock.protocols.mcp.meta import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    PROTOCOL_VERSION,
    SERVER_INFO,
    members,
    with_meta,
)
from interlock.protocols.mcp.revisions import LEGACY_NAMES, REVISIONS, Revision
from interlock.protocols.mcp.tasks import EXTENSION
from interlock.wire.errors import TABLE, ErrorObject, Fault
from interlock.wire.json_values import decode_json, decode_json_or
from interlock.wire.messages import Failure, Result
from interlock.wire.names import may_spell

MODERN_CODES: Final = frozenset(
    TABLE[name].new_mcp for name in ("HEADER_MISMATCH", "MISSING_CAPABILITY", "UNSUPPORTED_VERSION")
)
"""Errors that only a server of the stateless era gives."""


class Identity(msgspec.Struct, frozen=True):
    """How we introduce ourselves."""

    name: str = "interlock"
    version: str = "0.1.0"
    capabilities: bytes = b"{}"
    """The client capabilities, as JSON."""
    title: str | None = None

    def with_extension(self, name: str) -> Identity:
        """The same, declaring an extension too."""
        capabilities = msgspec.json.decode(self.capabilities, type=dict[str, object])
        known = capabilities.get("extensions")
        capabilities["extensions"] = {**(known if isinstance(known, dict) else {}), name: {}}
        return msgspec.structs.replace(self, capabilities=msgspec.json.encode(capabilities))

    def info(self) -> msgspec.Raw:
        """The Implementation object."""
        about = {"name": self.name, "version": self.version}
        if self.title is not None:
            about["title"] = self.title
        return msgspec.Raw(msgspec.json.encode(about))

    def meta(self, revision: Revision) -> dict[str, object]:
        """The `_meta` members that every request of the stateless era carries."""
        return {
            PROTOCOL_VERSION: revision.name,
            CLIENT_INFO: self.info(),
            CLIENT_CAPABILITIES: msgspec.Raw(self.capabilities),
        }

    def hello(self, revision: Revision) -> bytes:
        """The params of `initialize`."""
        return msgspec.json.encode(
            {
                "protocolVersion": revision.name,
                "capabilities": msgspec.Raw(self.capabilities),
                "clientInfo": self.info(),
            }
        )


@lru_cache(maxsize=64)
def encoded_meta(identity: Identity, revision: Revision) -> bytes:
    """The `_meta` of requests. Connections with the same identity share these two kilobytes."""
    return msgspec.json.encode(identity.meta(revision))


def introduced(params: bytes, meta: bytes) -> bytes:
    """The params with our `_meta`, unless they have one with a version."""
    if not may_spell(params, b"_meta"):
        # Put in front, without decoding.
        rest = params.lstrip()[1:].lstrip()
        return b'{"_meta":%b%b%b' % (meta, b"" if rest[:1] == b"}" else b",", rest)
    view = preview(params)
    if view.meta is not None and view.meta.protocol_version is not None:
        return params
    return with_meta(params, {**members(meta)})


class Peer(msgspec.Struct, frozen=True):
    """A server, as it introduced itself."""

    revision: Revision
    capabilities: bytes = b"{}"
    server_info: bytes = b"{}"
    """Self-reported, for display alone."""
    instructions: str = ""

    def offers(self, capability: str, feature: str = "") -> bool:
        """Whether the server declared a capability, and a feature of it (`resources`, `subscribe`)."""
        declared = msgspec.json.decode(self.capabilities, type=dict[str, object]).get(capability)
        if declared is None or not feature:
            return declared is not None
        return isinstance(declared, dict) and bool(declared.get(feature))


class RepeatWithVersion(msgspec.Struct, frozen=True):
    """The server is of the stateless era, but wants another version of it."""

    revision: Revision


def declaring(identity: Identity, revision: Revision, params: bytes) -> bytes:
    """Params of a request that accepts a task as its answer (SEP-2663, Capability Negotiation)."""
    return with_meta(params, identity.with_extension(EXTENSION).meta(revision))


Verdict = Peer | RepeatWithVersion | None
"""None: the server is of the handshake era."""


def judge_probe(answer: Result | Failure) -> Verdict:
    """Read the answer to `server/discover` (2026-07-28, Backward Compatibility).

    Raises UNSUPPORTED_VERSION.
    """
    if isinstance(answer, Failure):
        return _judge_refusal(answer.error)
    discovered = decode_json_or(answer.result, _Discovered, None)
    revision = None if discovered is None else _best_modern(discovered.supportedVersions)
    if discovered is None or revision is None:
        return None
    return Peer(
        revision,
        bytes(discovered.capabilities),
        bytes(discovered.meta.get(SERVER_INFO, b"{}")),
        discovered.instructions or "",
    )


def read_hello(result: bytes) -> Peer:
    """Read the answer to `initialize`. Raises UPSTREAM_ERROR for an unknown revision."""
    initialized = decode_json(result, _Initialized, "UPSTREAM_ERROR", "the answer to initialize cannot be read")
    revision = REVISIONS.get(initialized.protocolVersion)
    if revision is None or revision.modern:
        raise Fault(
            "UPSTREAM_ERROR",
            f"the server wants to speak {initialized.protocolVersion[:40]!r}",
            hint=f"it must speak one of {', '.join(LEGACY_NAMES)}",
            quotes_server=True,
        )
    return Peer(
        revision, bytes(initialized.capabilities), bytes(initialized.serverInfo), initialized.instructions or ""
    )


def remote_fault(error: ErrorObject) -> Fault:
    """A server's error as one of ours, with its own code, message and data."""
    raw = bytes(error.data)
    data = decode_json_or(raw, dict[str, object], {"data": msgspec.Raw(raw)}) if raw else {}
    return Fault("UPSTREAM_ERROR", error.message, code=error.code, data=data, quotes_server=True)


def _judge_refusal(error: ErrorObject) -> Verdict:
    if error.code not in MODERN_CODES:
        return None
    if error.code != TABLE["UNSUPPORTED_VERSION"].new_mcp:
        raise remote_fault(error)
    supported = decode_json_or(error.data, _Supported, _Supported()).supported
    revision = _best_modern(supported)
    if revision is not None:
        return RepeatWithVersion(revision)
    if any(name in LEGACY_NAMES for name in supported):
        return None
    named = ", ".join(supported[:10]) or "versions that it does not name"
    raise Fault("UNSUPPORTED_VERSION", f"the server speaks only {named}", quotes_server=True)


def _best_modern(names: list[str]) -> Revision | None:
    spoken = [REVISIONS[name] for name in names if name in REVISIONS and REVISIONS[name].modern]
    return max(spoken, key=lambda revision: revision.name, default=None)


class _Supported(msgspec.Struct):
    supported: list[str] = []


class _Discovered(msgspec.Struct):
    supportedVersions: list[str]
    capabilities: msgspec.Raw = msgspec.Raw(b"{}")
    instructions: str | None = None
    meta: dict[str, msgspec.Raw] = msgspec.field(name="_meta", default_factory=dict)


class _Initialized(msgspec.Struct):
    protocolVersion: str
    capabilities: msgspec.Raw = msgspec.Raw(b"{}")
    serverInfo: msgspec.Raw = msgspec.Raw(b"{}")
    instructions: str | None = None
