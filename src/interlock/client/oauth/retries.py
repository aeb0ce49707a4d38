"""Repeats requests that need a login: send, have a person log in if the server requires that, and send again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from interlock.client.oauth.login import Login, challenge_of
from interlock.wire.errors import Fault

R = TypeVar("R")
LOGINS: Final = 3
"""How often one request may have a person log in."""


async def logged_in(login: Login | None, attempt: Callable[[], Awaitable[R]]) -> R:
    """The result of an attempt, repeated after each login that it needs. Raises a `Fault`."""
    for _ in range(LOGINS):
        try:
            return await attempt()
        except Fault as fault:
            await log_in_after(fault, login)
    raise Fault("LOGIN_REQUIRED", f"the server refuses after {LOGINS} logins")


async def log_in_after(fault: Fault, login: Login | None) -> None:
    """Have a person log in, if the fault is LOGIN_REQUIRED. Raises any other fault."""
    if fault.name != "LOGIN_REQUIRED" or login is None or "challenge" not in fault.data:
        raise fault
    await login.log_in(challenge_of(fault))
