"""Answers the methods of MGP that operators use too: `mgp/access/…` and `mgp/discovery/…`.

Each reads its params, and acts as the principal of the caller. A refusal is recorded in the audit log.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import msgspec

from interlock.hub.auth.access_methods import AccessMethods, AccessQueryParams, GrantParams, RevokeParams
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.background_tasks import BackgroundTasks, Serve
from interlock.hub.calls.call import Caller
from interlock.hub.handlers.discovery_methods import DeregisterParams, DiscoveryMethods, ListServers
from interlock.hub.journal import Journal
from interlock.hub.sessions.session import Exchange
from interlock.hub.store_faults import fault_of
from interlock.hub.upstreams.registration.registration import RegistrationParams
from interlock.process.turns import encode_in_turns
from interlock.protocols.mcp.results import own_result
from interlock.protocols.mgp.methods import read_params
from interlock.protocols.traces import trace_of
from interlock.store import StoreError
from interlock.wire.errors import Fault

Operation = Callable[[Principal, Any, str], Coroutine[None, None, msgspec.Struct]]


class MgpOperationsHandler:
    """Answers clients with the result of an operation."""

    def __init__(
        self, access: AccessMethods, discovery: DiscoveryMethods, journal: Journal, background: BackgroundTasks
    ) -> None:
        self._access = access
        self._discovery = discovery
        self._journal = journal
        self._background = background

    @property
    def methods(self) -> dict[str, Serve]:
        """The methods of this handler."""
        rows: tuple[tuple[str, type[msgspec.Struct], Operation], ...] = (
            ("mgp/access/query", AccessQueryParams, self._access.query),
            ("mgp/access/grant", GrantParams, self._access.grant),
            ("mgp/access/revoke", RevokeParams, self._access.revoke),
            ("mgp/discovery/list", ListServers, self._discovery.list),
            ("mgp/discovery/register", RegistrationParams, self._discovery.register),
            ("mgp/discovery/deregister", DeregisterParams, self._discovery.deregister),
        )
        return {name: partial(self._begin, kind, operation) for name, kind, operation in rows}

    def _begin(self, kind: type[msgspec.Struct], operation: Operation, exchange: Exchange, caller: Caller) -> None:
        self._background.begin(self._answer(kind, operation, exchange, caller), exchange)

    async def _answer(
        self, kind: type[msgspec.Struct], operation: Operation, exchange: Exchange, caller: Caller
    ) -> None:
        trace = trace_of(exchange.request, exchange.preview)
        try:
            params = read_params(exchange.request.params, kind)
            result = await encode_in_turns(await operation(caller.principal, params, trace))
        except Fault as fault:
            self._journal.refused(caller.principal, exchange.request.method, fault, trace)
            exchange.fail(fault)
        except StoreError as cause:
            exchange.fail(fault_of(cause))
        else:
            exchange.result(own_result(result) if exchange.dialect.modern else result)
