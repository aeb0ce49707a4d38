"""Leases on conversations: only one hub of a store at a time runs a turn of a conversation.

A hub renews its lease while the turn runs. The lease of a hub that died expires, and a lease of an earlier run of the
same hub is void.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

import msgspec

from interlock.hub.app import HubApp
from interlock.hub.conversation_documents import TURN_LEASES, StoredTurn, TurnLease
from interlock.store import StoreError
from interlock.store.store import Transaction
from interlock.wire.errors import Fault

LEASE_S: Final = 60.0
"""The lifetime of a lease without renewal. The clocks of hubs on one store must differ by less than that."""
RENEWALS: Final = 3
"""Renewals within the lifetime of one lease."""


class TurnLeases:
    """The leases of one hub's turns."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app
        self.node = hub_app.hub.worker.node

    async def take(self, transaction: Transaction, turn: StoredTurn) -> None:
        """Take the lease for a turn that begins. Raises RESOURCE_EXHAUSTED while another hub has it."""
        found = await transaction.get(TURN_LEASES, turn.conversation)
        if found is not None and found.value.node != self.node and found.value.until > time.time():
            message = "a turn of this conversation is under way at another hub"
            hint = f"wait for it, or stop it at the hub {found.value.node}"
            raise Fault("RESOURCE_EXHAUSTED", message, hint=hint, retry_after_ms=1000)
        transaction.put(TURN_LEASES, TurnLease(turn.conversation, self.node, turn.inference, time.time() + LEASE_S))

    async def give_back(self, transaction: Transaction, turn: StoredTurn) -> None:
        """Delete the lease in the transaction that commits its turn."""
        found = await transaction.get(TURN_LEASES, turn.conversation)
        if found is not None and found.value.inference == turn.inference:
            transaction.delete(TURN_LEASES, turn.conversation)

    async def keep(self, conversation: str, inference: str) -> None:
        """Renew the lease of a turn until it is given back. This runs beside the turn."""
        while True:
            await asyncio.sleep(LEASE_S / RENEWALS)
            try:
                async with self._hub_app.store.transaction() as transaction:
                    found = await transaction.get(TURN_LEASES, conversation)
                    if found is None or found.value.inference != inference:
                        return
                    renewed = msgspec.structs.replace(found.value, until=time.time() + LEASE_S)
                    transaction.put(TURN_LEASES, renewed)
            except StoreError:
                continue  # The store is unavailable for a moment, or the lease was just given back.
