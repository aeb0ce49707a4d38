"""The fault for a call to a server that is not connected, by the server's state (MGP, Standard Error Codes)."""

from __future__ import annotations

import asyncio
from typing import Final

from interlock.hub.upstreams.states import ServerState
from interlock.wire.errors import Fault

RETRY_AFTER_MS: Final = 2000


def unavailable(server: str, state: ServerState, problem: Fault | None, stopped: bool, retry_ms: int) -> Fault:
    """SERVER_DRAINING (2001), SERVER_RESTARTING (2002), or SERVER_NOT_READY (2000) with the problem and its fix."""
    if state is ServerState.DRAINING or (stopped and problem is None):
        return Fault("SERVER_DRAINING", f"{server} is shutting down", retry_after_ms=retry_ms)
    if stopped and problem is not None:
        # Nobody knows when a person starts it, so the time is that of the other states.
        return Fault(problem.name, own_words(problem), hint=problem.hint, retry_after_ms=retry_ms)
    if problem is not None and problem.name == "LOGIN_REQUIRED":
        return Fault("LOGIN_REQUIRED", f"server {server} needs a login", hint=problem.hint)
    reason = "" if problem is None else f" because {own_words(problem)}"
    hint = (problem.hint if problem is not None else "") or f"see `interlock logs {server}`"
    if state is ServerState.RESTARTING:
        return Fault("SERVER_RESTARTING", f"server {server} is restarting{reason}", hint=hint, retry_after_ms=retry_ms)
    condition = "down" if problem is not None else state.value
    return Fault("SERVER_NOT_READY", f"server {server} is {condition}{reason}", hint=hint, retry_after_ms=retry_ms)


def own_words(problem: Fault) -> str:
    """A problem for agents. They get the words of a server only as answers, which the gates see."""
    if not problem.quotes_server:
        return problem.message
    if problem.foreign_code is not None:
        return f"it refused the handshake with error {problem.foreign_code}"
    if "status" in problem.data:
        return f"it answered the handshake with HTTP {problem.data['status']}"
    if problem.name == "UNSUPPORTED_VERSION":
        return "it speaks no version of the protocol that the hub speaks"
    return "its answer to the handshake cannot be used"


def in_own_words(problem: Fault) -> Fault:
    """The same problem as a fault for agents."""
    if not problem.quotes_server:
        return problem
    return Fault(problem.name, own_words(problem), hint=problem.hint, retry_after_ms=problem.retry_after_ms)


def defect(id: str, cause: Exception) -> Fault:
    """Report an exception of the hub while it ran a server, and return the fault for it."""
    message = f"the hub failed over {id}"
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": cause})
    return Fault("INTERNAL_ERROR", f"{message}: {cause!r}")
