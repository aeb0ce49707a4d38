"""The life of MCPL on one connection as one table of transitions.

Three rules hold here. Everything is off before the first `featureSets/update`: messages of a 0.4 server count once the
update is written, those of a 0.5 server once it accepts. A narrower policy holds at once, a wider one only after the
server was told. A server's answer never widens its rights.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from interlock.protocols.mcpl.capabilities import McplDialect
from interlock.protocols.mcpl.feature_sets import FeatureSetsUpdate, UpdateReceipt
from interlock.protocols.mcpl.negotiation import McplOffer
from interlock.protocols.mcpl.policy import NOTHING, EffectivePolicy, HostPolicy, effective, update_message


class ConnectionPhase(enum.Enum):
    """The four phases."""

    OFF = "off"
    """MCPL is agreed on, but no update was sent."""
    WAITING = "waiting"
    """A 0.5 server has not answered the update yet."""
    ON = "on"
    REFUSED = "refused"
    """The server declined the policy. MCPL is off, MCP continues."""


class ConnectionEvent(enum.Enum):
    """The events of a connection."""

    NOTIFIED = "notified"
    """The update was written to a 0.4 server."""
    REQUESTED = "requested"
    """The update was written to a 0.5 server."""
    ACCEPTED = "accepted"
    """The server accepted the latest update."""
    DECLINED = "declined"
    """The server declined the latest update."""
    UNANSWERED = "unanswered"
    """The server answered with an error, unreadably, or not at all."""


TRANSITIONS: Final[Mapping[ConnectionPhase, Mapping[ConnectionEvent, ConnectionPhase]]] = {
    ConnectionPhase.OFF: {
        ConnectionEvent.NOTIFIED: ConnectionPhase.ON,
        ConnectionEvent.REQUESTED: ConnectionPhase.WAITING,
    },
    ConnectionPhase.WAITING: {
        ConnectionEvent.REQUESTED: ConnectionPhase.WAITING,
        ConnectionEvent.ACCEPTED: ConnectionPhase.ON,
        ConnectionEvent.DECLINED: ConnectionPhase.REFUSED,
        ConnectionEvent.UNANSWERED: ConnectionPhase.WAITING,
    },
    ConnectionPhase.ON: {
        ConnectionEvent.NOTIFIED: ConnectionPhase.ON,
        ConnectionEvent.REQUESTED: ConnectionPhase.ON,
        ConnectionEvent.ACCEPTED: ConnectionPhase.ON,
        ConnectionEvent.DECLINED: ConnectionPhase.REFUSED,
        ConnectionEvent.UNANSWERED: ConnectionPhase.ON,
    },
    ConnectionPhase.REFUSED: {
        ConnectionEvent.NOTIFIED: ConnectionPhase.ON,
        ConnectionEvent.REQUESTED: ConnectionPhase.WAITING,
    },
}

ACTIVATES: Final = frozenset({ConnectionEvent.NOTIFIED, ConnectionEvent.ACCEPTED})
"""Events that put a pending policy in force."""


class McplConnection(msgspec.Struct, frozen=True):
    """The state of MCPL with one server: its offer, the policy in force, and the policy that it must still be told."""

    offer: McplOffer
    phase: ConnectionPhase = ConnectionPhase.OFF
    active: EffectivePolicy = NOTHING
    """The policy in force. Every check uses it."""
    pending: EffectivePolicy | None = None
    """A decided policy that is not in force before the server was told."""
    update: int = 0
    """The number of the latest update. Receipts for earlier updates are ignored."""
    sent: int = 0
    """The number of the latest update that was written to the server. Only this one can be answered."""

    @property
    def dialect(self) -> McplDialect:
        """The dialect that both sides speak, from the offer."""
        return self.offer.dialect

    @property
    def on(self) -> bool:
        """Whether the server's messages count."""
        return self.phase is ConnectionPhase.ON

    def message(self) -> FeatureSetsUpdate | None:
        """The latest update to write; None if there is none."""
        return None if self.pending is None else update_message(self.pending, self.dialect, self.offer.paths)


def decide(connection: McplConnection, policy: HostPolicy) -> McplConnection:
    """The connection under a new policy. Narrower rights hold at once, wider ones after the server was told."""
    return _pending(connection, effective(connection.offer, policy))


def redeclare(connection: McplConnection, offer: McplOffer, policy: HostPolicy) -> McplConnection:
    """The connection after changed declarations. A removed or changed set is off at once."""
    return _pending(msgspec.structs.replace(connection, offer=offer), effective(offer, policy))


def written(connection: McplConnection, update: int) -> McplConnection:
    """The connection after an update was written to the server."""
    if update != connection.update or connection.pending is None:
        return connection
    event = ConnectionEvent.NOTIFIED if connection.dialect is McplDialect.V0_4 else ConnectionEvent.REQUESTED
    return _after(msgspec.structs.replace(connection, sent=update), event)


def answered(connection: McplConnection, update: int, receipt: UpdateReceipt | None) -> McplConnection:
    """The connection after a 0.5 server answered an update. The receipt is None for a missing or unreadable answer."""
    if update != connection.update or update != connection.sent or connection.dialect is McplDialect.V0_4:
        return connection
    if receipt is None:
        return _after(connection, ConnectionEvent.UNANSWERED)
    return _after(connection, ConnectionEvent.ACCEPTED if receipt.accepted else ConnectionEvent.DECLINED)


def _pending(connection: McplConnection, decided: EffectivePolicy) -> McplConnection:
    return msgspec.structs.replace(
        connection, active=connection.active & decided, pending=decided, update=connection.update + 1
    )


def _after(connection: McplConnection, event: ConnectionEvent) -> McplConnection:
    phase = TRANSITIONS[connection.phase].get(event)
    if phase is None or connection.pending is None:
        return connection
    if event in ACTIVATES:
        return msgspec.structs.replace(connection, phase=phase, active=connection.pending)
    active = NOTHING if phase is ConnectionPhase.REFUSED else connection.active
    return msgspec.structs.replace(connection, phase=phase, active=active)
