"""The fault for a call to a server that is not connected, by the server's state (MGP, Standard Error Codes)."""

from __future__ import annotations

import asyncio
from typing import Final

from interlock.client.oauth.login import NEEDS_LOGIN
from interlock.hub.upstreams.states import ServerState
from interlock.wire.errors import Fault

RETRY_AFTER_MS: Final = 2000
UNLISTED_RETRY_MS: Final = 10_000


def unavailable(server: str, state: ServerState, problem: Fault | None, stopped: bool, retry_ms: int) -> Fault:
    """SERVER_DRAINING (2001), SERVER_RESTARTING (2002), or SERVER_NOT_READY (2000) with the problem and its fix."""
    if state is ServerState.DRAINING or (stopped and problem is None):
        return Fault("SERVER_DRAINING", f"{server} is shutting down", retry_after_ms=retry_ms)
    if stopped and problem is not None:
        # The time until a person starts it is not known, so the usual time is used.
        return Fault(problem.name, fault_for_agents(problem).message, hint=problem.hint, retry_after_ms=retry_ms)
    if problem is not None and problem.name == "LOGIN_REQUIRED":
        return Fault("LOGIN_REQUIRED", f"server {server} needs a login", hint=problem.hint)
    reason = "" if problem is None else f" because {fault_for_agents(problem).message}"
    hint = (problem.hint if problem is not None else "") or f"see `interlock logs {server}`"
    if state is ServerState.RESTARTING:
        return Fault("SERVER_RESTARTING", f"server {server} is restarting{reason}", hint=hint, retry_after_ms=retry_ms)
    condition = "down" if problem is not None else state.value
    return Fault("SERVER_NOT_READY", f"server {server} is {condition}{reason}", hint=hint, retry_after_ms=retry_ms)


def unlisted(server: str, problem: Fault) -> Fault:
    """SERVER_NOT_READY for a tool of a server whose lists could not be read."""
    reason = fault_for_agents(problem, "the request for its lists").message
    hint = f"see `interlock logs {server}`"
    return Fault("SERVER_NOT_READY", f"{server}: {reason}", hint=hint, retry_after_ms=UNLISTED_RETRY_MS)


def fault_for_agents(problem: Fault, asked: str = "the handshake") -> Fault:
    """A problem with a server without text of that server: agents get such text only in answers, which gates check."""
    if not problem.quotes_server:
        return problem
    if problem.foreign_code is not None:
        message = f"it refused {asked} with error {problem.foreign_code}"
    elif "status" in problem.data:
        message = f"it answered {asked} with HTTP {problem.data['status']}"
    elif problem.name == "LOGIN_REQUIRED":
        message = NEEDS_LOGIN
    elif problem.name == "UNSUPPORTED_VERSION":
        message = "it supports no version of the protocol that the hub supports"
    else:
        message = f"{asked} failed: an answer cannot be used" if problem.name == "UPSTREAM_ERROR" else f"{asked} failed"
    return Fault(problem.name, message, hint=problem.hint, retry_after_ms=problem.retry_after_ms)


def defect(id: str, cause: Exception) -> Fault:
    """Report an exception of the hub while it ran a server, and return the fault for it."""
    message = f"the hub failed while it ran {id}"
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": cause})
    return Fault("INTERNAL_ERROR", f"{message}: {cause!r}")
