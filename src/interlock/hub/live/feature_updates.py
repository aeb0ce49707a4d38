"""Tells servers which feature sets are on (`featureSets/update`), and follows what they declare.

The grant in force when a message arrives decides, so a narrower grant holds before the server is told. A 0.5 server
answers an update with a receipt, which may come on another stream than its next request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final, Protocol

import msgspec

from interlock.hub.live.connection import LiveConnection
from interlock.hub.live.features import Features
from interlock.hub.upstreams.logs import Logs
from interlock.protocols.mcpl import feature_sets, states
from interlock.protocols.mcpl.capabilities import McplDialect
from interlock.protocols.mcpl.methods import METHODS
from interlock.protocols.mcpl.negotiation import McplOffer, read_manifest_result
from interlock.protocols.mcpl.policy import HostPolicy
from interlock.wire.errors import Fault

UPDATE: Final = "featureSets/update"
ANSWER_TIMEOUT_S: Final = 10.0
"""How long a server may take to answer an update, or a request for its manifest."""
MAX_UPDATES: Final = 2_048
"""Updates of one connection that are under way."""


class DeclarationListener(Protocol):
    """Is told when servers change their declarations."""

    def refresh(self) -> None:
        """Some feature sets may have changed."""


class NameJudge(Protocol):
    """Judges the names of feature sets."""

    async def names(self, server: str, found: Collection[str]) -> frozenset[str]:
        """The names that clients may be told. Raises a `Fault` if they cannot be judged."""


class FeatureUpdates:
    """The updates of all connections."""

    def __init__(self, features: Features, logs: Logs) -> None:
        self._features = features
        self._logs = logs
        self._listener: DeclarationListener | None = None
        self._names: NameJudge | None = None

    def judge_names_with(self, judge: NameJudge) -> None:
        """Judge names with `judge` before clients that are hosts see them. Called before the first server connects."""
        self._names = judge

    async def judge_names(self, live: LiveConnection) -> None:
        """Judge the names that a server declares now. Clients see only names that passed."""
        declared = live.state.offer.feature_sets
        if self._names is None or not declared:
            return
        try:
            live.show_names(await self._names.names(live.server, [*declared]))
        except Fault as fault:
            self._log(live.server, f"the names of its feature sets could not be searched: {fault.message}")
            return
        if withheld := len(declared.keys() - live.shown_names):
            self._log(live.server, f"{withheld} of its feature sets have names that read like instructions")

    def follow_with(self, listener: DeclarationListener) -> None:
        """Report changed declarations to a listener of a higher layer."""
        self._listener = listener

    async def update(self, live: LiveConnection) -> None:
        """Decide again what is on, and tell the server."""
        live.move(states.decide(live.state, self._policy(live, live.state.offer)))
        await self._send(live)

    def begin(self, live: LiveConnection) -> None:
        """Run `update` in the background."""
        live.updates.begin(self.update(live), None)

    def on_changed(self, live: LiveConnection, change: feature_sets.FeatureSetsChanged) -> None:
        """Apply a server's changed declarations. Raises a `Fault` for an impossible change."""
        sets = feature_sets.apply_change(live.state.offer.feature_sets, change, live.state.dialect)
        # Apply it at once: the next change may arrive before the server is told of this one.
        self._redeclare(live, msgspec.structs.replace(live.state.offer, feature_sets=sets))
        if len(live.updates) < MAX_UPDATES:
            live.updates.begin(self._announce(live), None)

    def on_manifest_hint(self, live: LiveConnection) -> None:
        """Read the manifest of a 0.5 server again, because the server says that it changed."""
        if live.add_manifest_hint():
            live.updates.begin(self._read_manifests(live), None)

    def _redeclare(self, live: LiveConnection, offer: McplOffer) -> None:
        live.move(states.redeclare(live.state, offer, self._policy(live, offer)))

    async def _announce(self, live: LiveConnection) -> None:
        """Tell the server, and the listeners of declarations, the effect of changed declarations."""
        await self._send(live)
        await self.judge_names(live)
        if self._listener is not None:
            self._listener.refresh()

    def _policy(self, live: LiveConnection, offer: McplOffer) -> HostPolicy:
        return self._features.policy(live.server, offer.feature_sets, live.agent)

    async def _send(self, live: LiveConnection) -> None:
        """Send the latest update. For a 0.5 server it is a request, and its receipt may come later."""
        message, number = live.state.message(), live.state.update
        if message is None:
            return
        params = msgspec.json.encode(message)
        try:
            if live.state.dialect is McplDialect.V0_4 and not live.connection.modern:
                live.connection.tell(UPDATE, params)
                live.move(states.written(live.state, number))
                return
            answer = asyncio.ensure_future(
                live.connection.request(UPDATE, params, timeout=ANSWER_TIMEOUT_S, early=True)
            )
            # Let the task run first, so that the server gets the update before any other message.
            await asyncio.sleep(0)
            live.move(states.written(live.state, number))
            live.updates.begin(self._take_receipt(live, number, answer, live.await_receipt()), None)
        except Fault as fault:
            self._log(live.server, f"was not told of its feature sets: {fault.message}")

    async def _take_receipt(
        self, live: LiveConnection, number: int, answer: asyncio.Future[bytes], taken: asyncio.Future[None]
    ) -> None:
        receipt = None
        try:
            row = METHODS[UPDATE]
            found = msgspec.json.decode(await answer, type=row.result) if row.result is not None else None
            receipt = found if isinstance(found, feature_sets.UpdateReceipt) else None
        except (Fault, msgspec.MsgspecError, UnicodeDecodeError) as cause:
            self._log(live.server, f"did not accept its feature sets: {cause}")
        finally:
            live.move(states.answered(live.state, number, receipt))
            taken.set_result(None)
        if receipt is not None and (not receipt.accepted or receipt.notes):
            live.keep_note(receipt.reason or "; ".join(receipt.notes))
            self._log(live.server, f"answered its feature sets: accepted={receipt.accepted} {live.note}"[:1000])

    async def _read_manifests(self, live: LiveConnection) -> None:
        """Read the manifest, and once more if hints came meanwhile. One task serves any number of hints."""
        try:
            while live.manifest_hints and len(live.updates) < MAX_UPDATES:
                hints = live.manifest_hints
                await self._read_manifest(live)
                live.drop_manifest_hints(hints)
        finally:
            live.drop_manifest_hints()

    async def _read_manifest(self, live: LiveConnection) -> None:
        """Read a 0.5 server's declarations again. Sets whose declaration changed are off at once."""
        try:
            result = await live.connection.request("mcpl/manifest", timeout=ANSWER_TIMEOUT_S)
            offer = read_manifest_result(result)
        except Fault as fault:
            self._log(live.server, f"its new MCPL manifest cannot be read: {fault.message}")
            return
        if offer is not None and offer.dialect is live.state.dialect:
            self._redeclare(live, offer)
            await self._announce(live)

    def _log(self, server: str, text: str) -> None:
        self._logs.add(server, "hub", text)
