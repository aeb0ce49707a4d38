"""Exchanges that stand before others."""

from __future__ import annotations

from interlock.hub.sessions.exchanges import FutureExchange, WrappedExchange
from interlock.hub.sessions.middleware import Middleware
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import RequestPreview
from interlock.protocols.mcp.revisions import LATEST
from interlock.server.requests.callers import Anyone
from interlock.transports.exchange import SessionExchange, SessionService
from interlock.wire.messages import EMPTY_OBJECT, Request


def members(cls: type) -> set[str]:
    return {name for name in vars(cls) if not name.startswith("_")}


def test_a_wrapped_exchange_and_a_middleware_pass_everything_on() -> None:
    copied = set(SessionExchange.__slots__) - {"dialect"}
    # They call `fail` and `on_cancel`, `result`, `open` and `reachable`, and set `dialect`.
    made_of_others = {"revoke", "result_list", "can_answer_now", "speak"}
    assert members(SessionExchange) - copied - made_of_others <= members(WrappedExchange)
    assert members(SessionService) - {"admit"} <= members(Middleware)


async def test_a_wrapped_exchange_says_whether_the_client_is_reachable() -> None:
    class Gone(FutureExchange):
        @property
        def reachable(self) -> bool:
            return False

        def ask(self, method: str, params: bytes) -> None:  # type: ignore[override]
            raise NotImplementedError

    gone = Gone(Request(1, "tools/call", EMPTY_OBJECT), RequestPreview(), Dialect(LATEST), Anyone())
    wrapped = WrappedExchange(gone)
    assert (wrapped.open, wrapped.reachable) == (True, False)
    assert not wrapped.can_answer_now
    assert not wrapped.can_answer_later
