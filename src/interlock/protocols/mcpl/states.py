"""The life of MCPL on one connection as one table of transitions.

Three rules hold here. Until the server was sent its first `featureSets/update` everything is off: a 0.4 server's
messages count once the update was written to it, a 0.5 server's once it accepted. A narrower policy holds at once, a
wider one only after the server was told. A server's answer never widens anything.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from interlock.protocols.mcpl.capabilities import McplDialect
from interlock.protocols.mcpl.feature_sets import Receipt, Update
from interlock.protocols.mcpl.negotiation import McplOffer
from interlock.protocols.mcpl.policy import NOTHING, Effective, HostPolicy, effective, update_message


class ConnectionPhase(enum.Enum):
    """The four phases."""

    OFF = "off"
    """Agreed on, and nothing was sent yet."""
    WAITING = "waiting"
    """A 0.5 server was asked, and has not answered."""
    ON = "on"
    REFUSED = "refused"
    """The server declined the policy: MCPL is off, and MCP goes on."""


class ConnectionEvent(enum.Enum):
    """The events of a connection."""

    NOTIFIED = "notified"
    """The update was written to a 0.4 server."""
    REQUESTED = "requested"
    """The update was written to a 0.5 server."""
    ACCEPTED = "accepted"
    """The server's receipt for the latest update."""
    DECLINED = "declined"
    """The server's refusal of the latest update."""
    UNANSWERED = "unanswered"
    """No answer came, or an error, or one that cannot be read."""


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
"""Events after which a pending policy is in force."""


class McplConnection(msgspec.Struct, frozen=True):
    """MCPL with one server: what it offers, what is in force, and what it has yet to be told."""

    offer: McplOffer
    phase: ConnectionPhase = ConnectionPhase.OFF
    active: Effective = NOTHING
    """In force. Every check asks this."""
    pending: Effective | None = None
    """Decided, and not in force until the server was told."""
    update: int = 0
    """Number of the latest update. A receipt for an earlier one changes nothing."""
    sent: int = 0
    """Number of the latest update that was written to the server. Only that can be answered."""

    @property
    def dialect(self) -> McplDialect:
        """The dialect."""
        return self.offer.dialect

    @property
    def on(self) -> bool:
        """Whether the server's messages count."""
        return self.phase is ConnectionPhase.ON

    def message(self) -> Update | None:
        """The latest update, to be written; None if there is none."""
        return None if self.pending is None else update_message(self.pending, self.dialect, self.offer.paths)


def decide(connection: McplConnection, policy: HostPolicy) -> McplConnection:
    """The connection under a new policy: narrower rights hold at once, wider ones once the server was told."""
    return _pending(connection, effective(connection.offer, policy))


def redeclare(connection: McplConnection, offer: McplOffer, policy: HostPolicy) -> McplConnection:
    """The connection after the server changed its declarations. A set that is gone or differs is off at once."""
    return _pending(msgspec.structs.replace(connection, offer=offer), effective(offer, policy))


def written(connection: McplConnection, update: int) -> McplConnection:
    """The connection after an update was written to the server."""
    if update != connection.update or connection.pending is None:
        return connection
    event = ConnectionEvent.NOTIFIED if connection.dialect is McplDialect.V0_4 else ConnectionEvent.REQUESTED
    return _after(msgspec.structs.replace(connection, sent=update), event)


def answered(connection: McplConnection, update: int, receipt: Receipt | None) -> McplConnection:
    """The connection after a 0.5 server answered an update; None stands for no answer that could be read."""
    if update != connection.update or update != connection.sent or connection.dialect is McplDialect.V0_4:
        return connection
    if receipt is None:
        return _after(connection, ConnectionEvent.UNANSWERED)
    return _after(connection, ConnectionEvent.ACCEPTED if receipt.accepted else ConnectionEvent.DECLINED)


def _pending(connection: McplConnection, decided: Effective) -> McplConnection:
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
