"""Middleware: a service that wraps the hub's own and sees requests and their answers."""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Callable, Mapping
from typing import Generic

from interlock.hub.sessions.exchanges import WrappedExchange
from interlock.hub.sessions.session import HC, HC_co, Service, Session
from interlock.protocols.mcp.dialect import Dialect
from interlock.transports.exchange import SessionExchange
from interlock.transports.sessions.session import SessionChannel
from interlock.transports.sessions.states import SessionEvent
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.ids import Worker
from interlock.wire.messages import Notification


class Middleware(Generic[HC]):
    """Passes everything to the service behind it. A subclass serves requests in its own way."""

    def __init__(self, service: Service[HC]) -> None:
        self._service = service
        self.admit: Callable[[str, Mapping[bytes, bytes]], HC] = service.admit
        """The method of the service behind it: every request uses it."""

    @property
    def worker(self) -> Worker:
        return self._service.worker

    def prepare_session(self, caller: HC, dialect: Dialect) -> asyncio.Future[None] | None:
        return self._service.prepare_session(caller, dialect)

    def open_session(self, channel: SessionChannel, caller: HC, dialect: Dialect) -> tuple[Session, bytes]:
        return self._service.open_session(channel, caller, dialect)

    def serve(self, exchange: SessionExchange[Session, HC]) -> None:
        self._service.serve(exchange)

    def on_notification(self, caller: HC, session: Session | None, notification: Notification) -> None:
        self._service.on_notification(caller, session, notification)

    def check_rate(self, caller: HC) -> None:
        self._service.check_rate(caller)

    def count_malformed(self, caller: HC) -> None:
        self._service.count_malformed(caller)

    def resume_session(self, channel: SessionChannel, id: str, caller: HC) -> Session | None:
        return self._service.resume_session(channel, id, caller)

    def end_session(self, session: Session, event: SessionEvent, reason: str) -> None:
        self._service.end_session(session, event, reason)


class ObservedExchange(WrappedExchange[HC_co], abc.ABC):
    """An exchange whose outcome a middleware sees, once the client has it."""

    __slots__ = ()

    @abc.abstractmethod
    def on_result(self, result: bytes) -> None:
        """The client got a result."""

    @abc.abstractmethod
    def on_failure(self, name: str, message: str) -> None:
        """The client got an error, or cancelled the request. `name` is that of a fault, or a server's error code."""

    def result(self, result: bytes) -> None:
        super().result(result)
        self.on_result(result)

    def fail(self, fault: Fault) -> None:
        super().fail(fault)
        self.on_failure(fault.name, fault.message)

    def pass_failure(self, error: ErrorObject) -> None:
        super().pass_failure(error)
        self.on_failure(str(error.code), error.message)

    def on_cancelled(self, reason: str) -> None:
        super().on_cancelled(reason)
        self.on_failure("cancelled", "")
