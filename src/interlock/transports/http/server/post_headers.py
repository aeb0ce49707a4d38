"""Which headers a request on an MCP path must have. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from interlock.protocols.mcp import headers as mcp_headers
from interlock.protocols.mcp.revisions import REVISIONS

Headers = Mapping[bytes, bytes]

_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"


def unfit(headers: Headers) -> tuple[int, str] | None:
    """The status and the reason with which a POST is refused for its headers."""
    if not _is_json(headers.get(b"content-type", b"")):
        return 415, f"Content-Type must be {_JSON}"
    if not _accepts(headers.get(b"accept", b"*/*"), (_JSON, _EVENTS)):
        return 406, f"Accept must list {_JSON} and {_EVENTS}"
    return None


def accepts_events(headers: Headers) -> bool:
    """Whether the client takes an event stream."""
    return _accepts(headers.get(b"accept", b"*/*"), (_EVENTS,))


def names_session(headers: Headers) -> bool:
    """Whether the request belongs to a session (handshake era)."""
    return mcp_headers.SESSION in headers and not names_modern(headers)


def names_modern(headers: Headers) -> bool:
    """Whether the version header names a revision without sessions: then a session id means nothing."""
    revision = REVISIONS.get(headers.get(mcp_headers.VERSION, b"").decode("latin-1"))
    return revision is not None and revision.modern


def _is_json(content_type: bytes) -> bool:
    kind, _, parameters = content_type.decode("latin-1").lower().partition(";")
    charset = parameters.strip().replace('"', "").replace(" ", "")
    return kind.strip() == _JSON and charset in ("", "charset=utf-8")


@lru_cache(maxsize=256)
def _accepts(accept: bytes, kinds: tuple[str, ...]) -> bool:
    """Whether the client accepts all these types. A quality of zero is a refusal (RFC 9110, Accept)."""
    listed = set()
    for item in accept.decode("latin-1").lower().split(","):
        kind, *parameters = (part.strip() for part in item.split(";"))
        if not any(p.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000") for p in parameters):
            listed.add(kind)
    return all({kind, kind.partition("/")[0] + "/*", "*/*"} & listed for kind in kinds)
