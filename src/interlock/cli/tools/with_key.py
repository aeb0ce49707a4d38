"""`interlock list` and `call` with a key: they go to the hub's own address, as a program with this key does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from interlock.cli.control.hub_link import HubError, HubRefusal
from interlock.cli.control.own_address import own_url
from interlock.cli.control.perform import Json
from interlock.cli.terminal.failures import CommandRefused

if TYPE_CHECKING:
    from interlock.client import Client

Answer = TypeVar("Answer")


def called_with_key(key: str, name: str, arguments: Json, timeout: float | None) -> Json:
    """The result of a tool for the holder of a key. Raises `HubError`."""
    seconds = 3600 if timeout is None else timeout
    return _asked(key, seconds, lambda client: client.call_tool(name, arguments, timeout=seconds))


def listed_with_key(key: str, server: str | None) -> Json:
    """The tools that the holder of a key is shown, or those of one server. Raises `HubError`."""
    tools = _asked(key, 60, lambda client: client.list_tools())
    return {"tools": [tool for tool in tools if server is None or str(tool["name"]).startswith(f"{server}__")]}


def _asked(key: str, seconds: float, ask: Callable[[Client], Awaitable[Answer]]) -> Answer:
    import asyncio

    from interlock.wire.errors import Fault

    url = f"{own_url()}/mcp"
    try:
        return asyncio.run(_ask(url, key, seconds, ask))
    except Fault as fault:
        if fault.data.get("status") == 401:
            hint = "use the key of an agent: `interlock keys list` shows them, `interlock keys create NAME` makes one"
            raise CommandRefused("the hub does not accept this key", hint) from None
        # The client reports an error of the hub like that of any server. Its data is the same as at the control socket.
        kind = HubRefusal if fault.data.get("domain", fault.kind.domain) == "security" else HubError
        name, hint = str(fault.data.get("name", fault.name)), str(fault.data.get("hint", fault.hint))
        raise kind(fault.foreign_code or 0, fault.message, hint, name) from None


async def _ask(url: str, key: str, seconds: float, ask: Callable[[Client], Awaitable[Answer]]) -> Answer:
    from interlock.client import Client

    async with Client(url, headers={"Authorization": f"Bearer {key}"}, timeout=seconds, max_timeout=seconds) as client:
        return await ask(client)
