"""Performs the operations of one hub: checks the right, decodes strictly, runs the handler, and records the operation.

The control socket performs them for the hub's own user, the admin API for the holder of a key.
Every failure leaves as a `Fault`, so every request is answered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from interlock.config.home import user_name
from interlock.events import EventFilter, Subscription
from interlock.events.types import ApprovalChanged, Delivery, LogWritten
from interlock.hub.admin.approvals import ApprovalOperations
from interlock.hub.admin.audit_log import AuditLogOperations
from interlock.hub.admin.channels import ChannelOperations
from interlock.hub.admin.configuration import ConfigurationOperations
from interlock.hub.admin.console import ConsoleOperations
from interlock.hub.admin.conversations import ConversationHost, ConversationOperations
from interlock.hub.admin.features import FeatureOperations
from interlock.hub.admin.health import HealthOperations
from interlock.hub.admin.keys import KeyOperations
from interlock.hub.admin.logins import LoginOperations
from interlock.hub.admin.operation import OWNER, WRITE, Operation, Secret
from interlock.hub.admin.people import PROGRAM, ControlPeer, check_proof
from interlock.hub.admin.permissions import PermissionOperations
from interlock.hub.admin.rollback import RollbackOperations
from interlock.hub.admin.rooms import RoomGateway, RoomOperations
from interlock.hub.admin.server_entries import ServerEntryOperations
from interlock.hub.admin.servers import ServerOperations
from interlock.hub.admin.sessions import SessionOperations
from interlock.hub.admin.status import StatusOperations
from interlock.hub.admin.table import OPERATIONS
from interlock.hub.admin.taints import TaintOperations
from interlock.hub.admin.tools import ToolOperations
from interlock.hub.app import HubApp
from interlock.hub.audit.record import OPERATED
from interlock.hub.auth.principals import Principal, local_person
from interlock.hub.store_faults import operator_fault_of
from interlock.hub.upstreams.logs import line_of
from interlock.protocols.traces import new_trace_id
from interlock.store import StoreError
from interlock.wire.errors import Fault
from interlock.wire.json_values import JSON_ERRORS
from interlock.wire.large import LARGE
from interlock.wire.messages import EMPTY_OBJECT
from interlock.wire.payload_checks import strict

log = logging.getLogger("interlock.operations")


class Following(msgspec.Struct, frozen=True):
    """A stream after the answer: a subscription, and the notification for each of its events."""

    subscription: Subscription
    notification: Callable[[Delivery], tuple[str, msgspec.Struct] | None]
    """Returns method and params; None for nothing."""


class Operations:
    """The operations on one hub. `stop` ends the hub."""

    def __init__(
        self,
        hub_app: HubApp,
        stop: Callable[[], None],
        rooms: RoomGateway | None = None,
        host: ConversationHost | None = None,
    ) -> None:
        self._hub_app = hub_app
        self.hub_user = local_person(user_name())
        """The user whose hub it is: the principal of every control connection."""
        self.configuration = ConfigurationOperations(hub_app, stop)
        self.console = ConsoleOperations(hub_app)
        self._approvals = ApprovalOperations(hub_app.inbox, hub_app.passphrase, rooms)
        families = (
            StatusOperations(hub_app, self.configuration),
            HealthOperations(hub_app),
            ServerOperations(hub_app),
            ServerEntryOperations(hub_app, self.configuration),
            self.configuration,
            ToolOperations(hub_app),
            KeyOperations(hub_app),
            hub_app.access_methods,
            PermissionOperations(hub_app),
            self._approvals,
            AuditLogOperations(hub_app),
            SessionOperations(hub_app),
            TaintOperations(hub_app),
            RoomOperations(rooms),
            FeatureOperations(hub_app),
            ConversationOperations(hub_app, host),
            RollbackOperations(host),
            ChannelOperations(hub_app),
            hub_app.discovery,
            LoginOperations(hub_app),
            self.console,
        )
        self._families: dict[str, object] = {type(family).__name__: family for family in families}

    async def perform(
        self,
        by: Principal,
        name: str,
        params: bytes = EMPTY_OBJECT,
        trace: str = "",
        *,
        logged_in: bool = False,
        peer: ControlPeer = PROGRAM,
    ) -> msgspec.Struct:
        """Perform an operation for a principal. `params` is a JSON object. Raises nothing but a `Fault`.

        `logged_in`: a person in the console, whose login was as strong as a passphrase.
        `peer`: the program at the control socket.
        """
        operation = OPERATIONS.get(name)
        if operation is None:
            raise Fault("METHOD_NOT_FOUND", f"no such operation: {name[:200]}")
        trace = trace or new_trace_id()
        self.demand(by, operation, trace)
        try:
            given, passphrase = _read(params, operation)
            if not logged_in and getattr(given, "console", False):
                raise Fault("ACCESS_DENIED", "`console` may only be set by the console itself")
            if not (by.key or logged_in):
                await check_proof(self._hub_app, by, operation, given, passphrase, peer)
            result = await operation.handler(self._families[operation.family], by, given, trace)
        except Fault as fault:
            self._hub_app.journal.refused(by, operation.shown, fault, trace)
            raise
        except StoreError as cause:
            raise operator_fault_of(cause) from None
        except Exception as cause:
            raise self._failed(operation, cause) from cause
        if OPERATED in operation.events:
            server, because = getattr(given, "server", ""), getattr(given, "because", "")
            self._hub_app.journal.operated(by, name, server, because, trace)
        return result

    def demand(self, by: Principal, operation: Operation, trace: str) -> None:
        """Check the right to an operation. Raises PERMISSION_DENIED and records that."""
        try:
            if operation.right != OWNER:
                to = f"use {operation.path or operation.name}"
                self._hub_app.access.demand(by, to, write=operation.right == WRITE)
            elif by != self.hub_user:
                raise Fault("PERMISSION_DENIED", f"only the user whose hub it is may use {operation.name}")
        except Fault as fault:
            self._hub_app.journal.refused(by, operation.shown, fault, trace)
            raise

    def follow(self, name: str, params: bytes) -> Following | None:
        """The changes after the answer, where the request asks for them."""
        decoded = msgspec.json.decode(params, type=_Follow)
        if not decoded.follow:
            return None
        if name == "approvals.list":
            return Following(self._hub_app.inbox.watch(), self._decision)
        if name == "logs":
            sources = None if decoded.server is None else frozenset({decoded.server})
            return Following(self._hub_app.bus.subscribe(EventFilter.of(LogWritten, sources=sources)), _line)
        return None

    def _decision(self, event: Delivery) -> tuple[str, msgspec.Struct] | None:
        if not isinstance(event, ApprovalChanged):
            return None
        try:
            return "hub/decision", self._approvals.shown(self._hub_app.inbox.get(event.id))
        except Fault:
            return None  # It was deleted meanwhile.

    def _failed(self, operation: Operation, cause: Exception) -> Fault:
        """The answer for an unexpected exception. Only the hub's own user sees its text."""
        log.error("%s failed", operation.name, exc_info=cause)
        self._hub_app.logs.add("hub", "hub", f"{operation.name} failed: {cause!r}")
        if operation.right == OWNER and isinstance(cause, OSError | ValueError):
            return Fault("INTERNAL_ERROR", str(cause))
        return Fault("INTERNAL_ERROR", f"the hub failed to perform {operation.name}", hint="see `interlock logs hub`")


def _read(params: bytes, operation: Operation) -> tuple[msgspec.Struct, str]:
    """Decode params and the passphrase. A member that the operation does not have, or has twice, is refused."""
    known = [field.encode_name for field in msgspec.structs.fields(operation.params)]
    known += [] if operation.proof is None else ["passphrase"]
    try:
        given = msgspec.json.decode(params, type=dict[str, msgspec.Raw])
        if len(params) <= LARGE:
            strict(params)
        if unknown := sorted(given.keys() - {*known}):
            hint = f"one of {', '.join(sorted(known))}" if known else "it has none"
            raise Fault("INVALID_PARAMS", f"no parameter {unknown[0][:100]!r}", hint=hint)
        proof = msgspec.json.decode(params, type=_Proven).passphrase if operation.proof is not None else ""
        return msgspec.json.decode(params, type=operation.params), proof
    except JSON_ERRORS as cause:
        raise Fault("INVALID_PARAMS", str(cause)) from None


def _line(event: Delivery) -> tuple[str, msgspec.Struct] | None:
    return ("hub/log", line_of(event)) if isinstance(event, LogWritten) else None


class _Proven(msgspec.Struct):
    passphrase: Secret = ""


class _Follow(msgspec.Struct):
    server: str | None = None
    follow: bool = False
