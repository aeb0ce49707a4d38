"""The body of a request that was refused before anything of it was read: in MCP's words at an MCP address, in the tool
registry's anywhere else."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from interlock.protocols.registry.errors import error_body
from interlock.protocols.traces import new_trace_id
from interlock.transports.http.guard import Refusal
from interlock.transports.http.legacy_sse import mcp_path_of
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.messages import encode_failure


def refusal_body(refusal: Refusal, target: bytes, is_mcp: Callable[[str], bool]) -> bytes:
    """The error as whoever asked for this target reads it. What came without one was no proper HTTP at all."""
    fault = Fault(refusal.name, refusal.message)
    path = target.partition(b"?")[0].decode("latin-1")
    if not path or is_mcp(path) or is_mcp(mcp_path_of(path) or path):
        return encode_failure(None, fault.render(ErrorDialect.NEW_MCP))
    return msgspec.json.encode(error_body(fault, new_trace_id()))
