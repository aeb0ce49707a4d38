"""`interlock call` with a key: the call goes to the hub's own address, as a program with this key makes it."""

from __future__ import annotations

from interlock.cli.control.hub_link import HubError, HubRefusal
from interlock.cli.control.own_address import own_url
from interlock.cli.control.perform import Json
from interlock.cli.terminal.failures import CommandRefused


def called_with_key(key: str, name: str, arguments: Json, timeout: float | None) -> Json:
    """The result of a tool for the holder of a key. Raises `HubError`."""
    import asyncio

    from interlock.wire.errors import Fault

    url = f"{own_url()}/mcp"
    try:
        return asyncio.run(_call(url, key, name, arguments, timeout))
    except Fault as fault:
        if fault.data.get("status") == 401:
            hint = "use the key of an agent: `interlock keys list` shows them, `interlock keys create NAME` makes one"
            raise CommandRefused("the hub does not accept this key", hint) from None
        # The client reports an error of the hub like that of any server. Its data is the same as at the control socket.
        kind = HubRefusal if fault.data.get("domain", fault.kind.domain) == "security" else HubError
        name, hint = str(fault.data.get("name", fault.name)), str(fault.data.get("hint", fault.hint))
        raise kind(fault.foreign_code or 0, fault.message, hint, name) from None


async def _call(url: str, key: str, name: str, arguments: Json, timeout: float | None) -> Json:
    from interlock.client import Client

    seconds = 3600 if timeout is None else timeout
    async with Client(url, headers={"Authorization": f"Bearer {key}"}, timeout=seconds, max_timeout=seconds) as client:
        return await client.call_tool(name, arguments, timeout=seconds)
