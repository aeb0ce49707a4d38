"""`GET /ws?topic=NAME&mode=all|directed&since=CURSOR` opens a participant's WebSocket. It is judged before the upgrade.

The credential is a bearer token in `Authorization`, or for browsers in `Sec-WebSocket-Protocol`, which is never echoed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from interlock.hub.app import HubApp
from interlock.hub.auth.principals import LOCAL_AGENT
from interlock.protocols.mcpx.routing import ReceiveMode
from interlock.rooms.gateway import Gateway
from interlock.rooms.policy import unknown_topic
from interlock.rooms.tickets import PREFIX, Admission
from interlock.rooms.topic_operations import PATH
from interlock.transports.http.server.upgrades import UpgradeRequest
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from interlock.transports.websocket import WebSocketConnection

SUBPROTOCOL: Final = "mcpx.v0.1"
BEARER: Final = "bearer."
ENTRANCE: Final = "/mcp"
"""`/ws` accepts the credentials of `/mcp`."""


class RoomUpgrader:
    """Takes over the connections of `/ws` (`transports.http.server.upgrades.Upgrader`)."""

    path = PATH

    def __init__(self, hub_app: HubApp, gateway: Gateway) -> None:
        self._hub_app = hub_app
        self._gateway = gateway

    def admit(self, request: UpgradeRequest) -> WebSocketConnection:
        """Judge a request. Raises Fault, or AuthenticationPending while the credential is being verified."""
        if request.method != b"GET" or request.version != "1.1":
            raise Fault("INVALID_REQUEST", "a WebSocket opens with GET of HTTP/1.1")
        topic, mode, since = _query(request.target)
        if not self._hub_app.config.rooms.topics:
            raise unknown_topic(topic)
        self._gateway.topics.check_loaded()
        from interlock.transports.websocket import WebSocketConnection, accept

        offered = _offered(request.headers)
        # Refuse a malformed handshake first, so that it takes no place.
        answer = accept(request.target, request.headers, SUBPROTOCOL if SUBPROTOCOL in offered else None)
        admitted = self._admitted(_credential(request.headers, offered), topic)
        member = self._gateway.topics.admit(topic, admitted, mode, since)
        connection = WebSocketConnection(answer, member)
        member.attach(connection)
        return connection

    def _admitted(self, credential: bytes | None, topic: str) -> Admission:
        if credential is None:
            return Admission(None)
        scheme, _, text = credential.decode("latin-1").partition(" ")
        if scheme.lower() == "bearer" and text.startswith(PREFIX):
            admitted = self._gateway.tickets.redeem(text, topic)
            if admitted is None:
                raise Fault("AUTH_REQUIRED", "this ticket was used, has expired or is for another topic")
            return admitted
        principal = self._hub_app.authenticator.admit(ENTRANCE, {b"authorization": credential}).principal
        return Admission(None if principal == LOCAL_AGENT else principal)


def _query(target: bytes) -> tuple[str, ReceiveMode, str | None]:
    try:
        pairs = parse_qsl(
            target.partition(b"?")[2].decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=8,
        )
    except ValueError:
        raise Fault("INVALID_PARAMS", "the query cannot be read", hint="connect to /ws?topic=NAME") from None
    query = dict(pairs)
    if len(query) != len(pairs):
        raise Fault("INVALID_PARAMS", "a parameter is given twice")
    if unknown := sorted(query.keys() - {"topic", "mode", "since"}):
        raise Fault("INVALID_PARAMS", f"no parameter {unknown[0][:100]!r}", hint="one of mode, since, topic")
    topic, mode = query.get("topic", ""), query.get("mode", ReceiveMode.ALL.value)
    if not topic:
        raise Fault("INVALID_PARAMS", "no topic is named", hint="connect to /ws?topic=NAME")
    if mode not in (each.value for each in ReceiveMode):
        raise Fault("INVALID_PARAMS", f"mode {mode[:40]!r} is unknown", hint="one of all, directed")
    return topic, ReceiveMode(mode), query.get("since")


def _offered(headers: Mapping[bytes, bytes]) -> list[str]:
    return [each.strip() for each in headers.get(b"sec-websocket-protocol", b"").decode("latin-1").split(",")]


def _credential(headers: Mapping[bytes, bytes], offered: list[str]) -> bytes | None:
    bearers = [each.removeprefix(BEARER) for each in offered if each.startswith(BEARER)]
    header = headers.get(b"authorization")
    if len(bearers) + (header is not None) > 1:
        raise Fault("INVALID_REQUEST", "more than one credential is given", hint="send one")
    return b"Bearer " + bearers[0].encode("latin-1") if bearers else header
