"""Trace ids: a caller's own, where it sent one as W3C Trace Context has it, else a new one."""

from __future__ import annotations

import re
import secrets
from typing import Final

from interlock.protocols.mcp.meta import RequestMeta

_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}\Z")


def trace_of(meta: RequestMeta | None) -> str:
    """The trace id of a request, from its `_meta.traceparent`."""
    return trace_id(None if meta is None else meta.traceparent)


def trace_id(traceparent: str | None) -> str:
    """The trace id in a `traceparent`, or a new one."""
    found = _TRACEPARENT.match(traceparent or "")
    return found[1] if found and found[1].strip("0") else secrets.token_hex(16)
