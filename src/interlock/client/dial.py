"""Ways to reach a server: a command, a URL, or a service in this process. A dial can be used many times."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias, cast

from interlock.transports.exchange import Service
from interlock.transports.http.client.authorized_calls import Authorization
from interlock.transports.http.client.link import HttpLink
from interlock.transports.http.client.pool import Guard
from interlock.transports.link import Link, Listener
from interlock.transports.memory.link import MemoryLink
from interlock.transports.stdio.client import StdioLink
from interlock.transports.stdio.process import Command
from interlock.wire.limits import DEFAULT, Limits

Dial: TypeAlias = Callable[[Listener], Awaitable[Link]]
"""Returns a new link with this listener. Raises UPSTREAM_UNAVAILABLE."""


def to_command(command: Command, limits: Limits = DEFAULT) -> Dial:
    """A server that is a process of ours."""

    async def dial(listener: Listener) -> Link:
        return await StdioLink.spawn(command, listener, limits)

    return dial


def to_url(
    url: str,
    headers: Mapping[str, str] | None = None,
    limits: Limits = DEFAULT,
    *,
    guard: Guard | None = None,
    authorization: Authorization | None = None,
    context: ssl.SSLContext | None = None,
) -> Dial:
    """A server at a URL. `guard` judges addresses that the operator did not configure (`transports.resolving`)."""

    async def dial(listener: Listener) -> Link:
        return HttpLink(
            url, listener, headers=headers, limits=limits, guard=guard, authorization=authorization, context=context
        )

    return dial


def to_service(service: Service) -> Dial:
    """A server in this process."""

    async def dial(listener: Listener) -> Link:
        return MemoryLink(service, service.admit("/mcp", {}), listener)

    return dial


Target: TypeAlias = str | Sequence[str] | Command | Service | Dial
"""A URL, a command line, a server in this process, or another way to get a link."""


def dial_to(target: Target, headers: Mapping[str, str] | None, authorization: Authorization | None = None) -> Dial:
    """The dial of a target. Raises TypeError for any other value."""
    if isinstance(target, str):
        return to_url(target, headers, authorization=authorization)
    if isinstance(target, Command):
        return to_command(target)
    if isinstance(target, Sequence):
        return to_command(Command(tuple(target)))
    if hasattr(target, "serve") and hasattr(target, "admit"):
        return to_service(cast(Service, target))
    if callable(target):
        return target
    raise TypeError(f"neither a URL, nor a command, nor a server: {target!r}")
