"""Agrees with clients on MGP, and has the handlers of its methods. A client that offers no MGP sees none of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mgp.agreement import size_of, spoken_with
from interlock.protocols.mgp.methods import check_agreed
from interlock.server.requests.session import Exchange
from interlock.wire.bounded_cache import cache_short

OFFERED: Final = ("security", "lifecycle", "streaming", "bidirectional")
"""The MGP extensions that a server offers."""

Handler = Callable[[Exchange], None]


@cache_short(256, size_of)
def speaking(dialect: Dialect) -> Dialect:
    """The dialect for a client that offered MGP."""
    return spoken_with(dialect, OFFERED)


def if_agreed(handlers: Mapping[str, Handler]) -> dict[str, Handler]:
    """The same handlers, each for clients alone that agreed on the extension of its method."""

    def guarded(method: str, handler: Handler) -> Handler:
        def serve(exchange: Exchange) -> None:
            check_agreed(exchange.dialect, method)
            handler(exchange)

        return serve

    return {method: guarded(method, handler) for method, handler in handlers.items()}
