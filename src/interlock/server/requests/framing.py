"""Result objects from their members. The stateless era adds the kind of result and the server's name."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from interlock.protocols.mcp.meta import SERVER_INFO
from interlock.server.requests.session import Exchange


class Framing:
    """How one server's results are framed."""

    __slots__ = ("_head", "meta", "name")

    def __init__(self, info: Mapping[str, object]) -> None:
        self.meta: Mapping[str, object] = {SERVER_INFO: info}
        """The `_meta` of every result of the stateless era: it names the server."""
        self.name = str(info["name"])
        self._head = b'{"resultType":"complete","_meta":%b,' % msgspec.json.encode(self.meta)

    def framed(self, modern: bool, members: bytes, cache: bytes = b"") -> bytes:
        """A whole result. Members that begin with a `_meta` of their own do not get the server's."""
        if not modern:
            return b"{%b}" % members
        if members.startswith(b'"_meta":'):
            return b'{"resultType":"complete",%b%b}' % (members, cache)
        return b"%b%b%b}" % (self._head, members, cache)

    def answer(self, exchange: Exchange, members: bytes, cache: bytes = b"") -> None:
        """Answer a request with a whole result."""
        exchange.result(self.framed(exchange.dialect.modern, members, cache))
