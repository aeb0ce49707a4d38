"""The timeouts of calls, and the errors for calls that exceed them.

The tool registry has four (Timeout Handling): the tool, from dispatch; all checks of one call; listing one server;
a lock of the hub. A tool's own settings override its server's, and those override the hub's.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from interlock.config.settings import ServerSettings, TimeoutSettings, ToolTimeoutSettings
from interlock.hub.calls.verdicts import Refuse, Verdict, Wait
from interlock.hub.catalog.target import Target
from interlock.protocols.patterns import compile_pattern
from interlock.protocols.registry.errors import TIMEOUT_SUGGESTIONS
from interlock.wire.errors import Fault

_NONE: Final = ToolTimeoutSettings()


class CallTimeouts(msgspec.Struct, frozen=True):
    """The timeouts of one call, in seconds."""

    tool_s: float
    validation_s: float
    lock_s: float


def timeouts_for(hub: TimeoutSettings, server: ServerSettings | None, tool: str) -> CallTimeouts:
    """The timeouts for a tool by the server's own name for it. The name is empty for any other target."""
    if server is None:
        return CallTimeouts(hub.tool_s, hub.validation_s, hub.lock_s)
    own, known = _of_tool(server, tool), server.timeouts
    return CallTimeouts(
        _first(own.tool_s, known.tool_s, server.timeout_s, hub.tool_s),
        _first(own.validation_s, known.validation_s, hub.validation_s),
        _first(own.lock_s, known.lock_s, hub.lock_s),
    )


def timed_out(target: Target, trace: str, fault: Fault, timeout_s: float) -> Fault:
    """The error for a server that did not answer in time (the tool registry, Timeout Response)."""
    data: dict[str, object] = {
        "error_type": "ToolTimeout",
        "timeout_ms": round(timeout_s * 1000),
        "suggestions": TIMEOUT_SUGGESTIONS,
    }
    if target.tool is not None:
        data["tool_name"] = target.tool.exposed
    if trace:
        data["trace_id"] = trace
    hint = f"the operator can give it longer: [servers.{target.server}.timeouts] tool_s"
    message = f"{target.server} did not answer in time: it has {timeout_s:g} s"
    return Fault(fault.name, message, hint=hint, retry_after_ms=fault.retry_after_ms, data={**fault.data, **data})


async def work_of(wait: Wait, gate: str, ends: float, validation_s: float) -> Verdict:
    """The verdict in which the work of a gate ends; a refusal where it fails, or takes too long."""
    try:
        async with asyncio.timeout_at(ends):
            return await wait.work()
    except TimeoutError:
        return Refuse(_checks_timed_out(gate, validation_s), "all checks of a call have `validation_s`")
    except Fault as fault:
        return Refuse(fault, "the check could not be made")


def _checks_timed_out(gate: str, validation_s: float) -> Fault:
    """The error for a call whose checks took too long."""
    return Fault(
        "TIMEOUT",
        f"the checks of this call took longer than {validation_s:g} s; the last was {gate}",
        hint="repeat it, or have the operator raise `validation_s`",
        retry_after_ms=1000,
        data={"timeout_ms": round(validation_s * 1000), "timeout": "validation"},
    )


def _of_tool(server: ServerSettings, tool: str) -> ToolTimeoutSettings:
    """A tool's own timeouts. Where several patterns match, the last one that sets a timeout decides it."""
    found = _NONE
    for pattern, own in server.tools.timeouts.items() if tool else ():
        if compile_pattern(pattern).matches(tool):
            found = ToolTimeoutSettings(
                found.tool_s if own.tool_s is None else own.tool_s,
                found.validation_s if own.validation_s is None else own.validation_s,
                found.lock_s if own.lock_s is None else own.lock_s,
            )
    return found


def _first(*given: float | None) -> float:
    return next(seconds for seconds in given if seconds is not None)
