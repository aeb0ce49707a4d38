"""Answers the methods of MCPL that hosts send, for clients that are hosts themselves: the hub is their server.

Each method reaches the servers behind the hub that the client selected, with the checks, the judgement and the records
of the hub's own conversations. Refusals have MCPL's codes.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from interlock.hub.calls.background_tasks import BackgroundTasks, Serve, while_wanted
from interlock.hub.calls.call import Caller
from interlock.hub.calls.pipeline.judged_sends import JudgedSends
from interlock.hub.handlers.client_hooks import ClientHookHandler
from interlock.hub.live.client_channels import ClientChannels
from interlock.hub.live.client_host import ClientHost, HostMessage, NoticeExchange
from interlock.hub.live.client_hosts import ClientHosts
from interlock.hub.live.client_inference import ClientInferences
from interlock.hub.live.client_rollbacks import ROLLBACK, ClientRollbacks
from interlock.hub.live.connections import OwnConnections
from interlock.hub.live.hooks import InferenceHooks
from interlock.hub.live.server_texts import ServerTexts
from interlock.hub.sessions.resumable import ResumableSessions
from interlock.hub.sessions.session import Exchange, Session
from interlock.hub.tool_search.recorded_requests import RecordedRequests
from interlock.process.open_counts import OpenCounts
from interlock.protocols.mcpl.decoding import decode
from interlock.protocols.mcpl.feature_sets import UpdateReceipt
from interlock.protocols.mcpl.inference import InferenceChunk
from interlock.protocols.mcpl.live import ANSWER
from interlock.protocols.mcpl.methods import METHODS, find
from interlock.transports.host_requests import HostKey
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.messages import Notification

UPDATE: Final = "featureSets/update"
MANIFEST: Final = "mcpl/manifest"
CHUNK: Final = "inference/chunk"
MAX_RUNNING: Final = 16
"""Notifications of one client that are being passed on. Further ones of this client are dropped."""
MAX_OPEN_REQUESTS: Final = 64
"""Upper bound for requests of one principal that wait for servers."""

PUBLISH: Final = "channels/publish"

Answering = Callable[[ClientHost, bytes], Coroutine[Any, Any, object]]
Sending = Callable[[HostMessage], Coroutine[Any, Any, object]]


class HostMethods:
    """The methods for clients that are hosts."""

    def __init__(
        self,
        hosts: ClientHosts,
        hooks: InferenceHooks,
        client_hooks: ClientHookHandler,
        requests: RecordedRequests,
        background: BackgroundTasks,
        own_connections: OwnConnections,
        sends: JudgedSends,
        texts: ServerTexts,
    ) -> None:
        self._client_hooks = client_hooks
        self._hosts = hosts
        self._requests = requests
        self._background = background
        self._running: OpenCounts[HostKey] = OpenCounts()
        """Notifications that are being passed on, by client."""
        self._open_requests: OpenCounts[str] = OpenCounts()
        """Requests that wait for servers, by principal."""
        inferences = ClientInferences(hosts, hooks)
        channels = self._channels = ClientChannels(hosts, sends, texts)
        self._served: dict[str, Answering] = {
            "context/beforeInference": inferences.before,
            "context/afterInference": inferences.after,
            "inference/lifecycle": inferences.lifecycle,
            "channels/list": channels.listed,
            "channels/open": channels.open,
            "channels/close": channels.close,
            "channels/outgoing/chunk": channels.chunk,
            "channels/outgoing/complete": channels.complete,
            "channels/typing": channels.typing,
            "channels/acknowledge": channels.acknowledge,
        }
        rollbacks = ClientRollbacks(hosts, own_connections, sends, texts)
        self._judged: dict[str, Sending] = {PUBLISH: channels.publish, ROLLBACK: rollbacks.roll_back}
        """Methods that change something at a server: they are judged like calls."""
        self._announced: dict[str, Sending] = {PUBLISH: channels.announce}
        """Methods that may be notifications."""

    @property
    def methods(self) -> dict[str, Serve]:
        """The methods of this handler."""
        served = [name for name in (*self._served, *self._judged) if METHODS[name].kind != "notification"]
        return dict.fromkeys((UPDATE, MANIFEST, ANSWER, *served), self._serve)

    def keep_with(self, keeper: ResumableSessions) -> None:
        """Save the selections of clients, so that they outlive this run of the hub."""
        self._hosts.keep_with(keeper)

    def on_session_opened(self, session: Session) -> None:
        """A client may be a host."""
        self._hosts.join(session)

    def on_session_ended(self, session: Session) -> None:
        """Forget a client and its selection."""
        self._hosts.leave(session)

    def on_notification(self, caller: Caller, session: Session | None, notification: Notification) -> None:
        """Take a notification of MCPL. One that cannot be read or may not be sent has no answer, and is dropped."""
        host = self._hosts.of_notification(session, caller) if notification.method in METHODS else None
        if host is None:
            return
        try:
            find(notification.method, "host", host.dialect, notification=True)
            if notification.method == UPDATE:
                self._update(host, notification.params, request=False)
            elif notification.method == CHUNK:
                self._hosts.requests.on_chunk(host.key, decode(InferenceChunk, notification.params))
            elif notification.method in self._announced:
                message = HostMessage(host, caller, NoticeExchange(notification, caller, session))
                self._begin(host, self._announced[notification.method](message))
            elif notification.method in self._served:
                self._requests.count(caller)
                self._begin(host, self._served[notification.method](host, notification.params))
        except Fault:
            return

    def _serve(self, exchange: Exchange, caller: Caller) -> None:
        host = self._hosts.of_request(exchange, caller)
        if host is None:
            self._serve_other(exchange, caller)
            return
        try:
            method, params = exchange.request.method, exchange.request.params
            if method == ANSWER:
                self._hosts.requests.on_answer(str(host.key), params)
                _answer(exchange, {"taken": True})
                return
            find(method, "host", host.dialect, notification=False)
            if method in self._judged:
                self._begin_request(
                    exchange, caller.principal_name, self._judged[method](HostMessage(host, caller, exchange))
                )
                return
            self._requests.count(caller)
            if method == UPDATE:
                _answer(exchange, self._update(host, params, request=True))
            elif method == MANIFEST:
                _answer(exchange, self._hosts.offers.manifest(host))
            else:
                self._begin_request(exchange, caller.principal_name, self._served[method](host, params))
        except Fault as fault:
            _refuse(exchange, fault)

    def _begin_request(self, exchange: Exchange, principal_name: str, work: Coroutine[Any, Any, object]) -> None:
        """Have servers answer a request, for as long as its client waits. Raises RESOURCE_EXHAUSTED."""
        if self._open_requests[principal_name] >= MAX_OPEN_REQUESTS:
            work.close()
            message = f"{MAX_OPEN_REQUESTS} requests of this caller wait for servers"
            raise Fault("RESOURCE_EXHAUSTED", message, retry_after_ms=500)
        self._open_requests.add(principal_name)
        self._background.begin(self._run(exchange, work, principal_name), exchange)

    def _update(self, host: ClientHost, params: bytes, *, request: bool) -> UpdateReceipt:
        receipt = self._hosts.update(host, params, request=request)
        self._begin(host, self._channels.register(host, params))
        return receipt

    def _begin(self, host: ClientHost, work: Coroutine[Any, Any, object]) -> None:
        """Serve a notification in the background, unless too many of this client are under way."""
        if self._running[host.key] < MAX_RUNNING:
            self._running.add(host.key)
            self._background.begin(self._take(host, work), None)
        else:
            work.close()

    def _serve_other(self, exchange: Exchange, caller: Caller) -> None:
        """Answer a client that is no host: its hooks may tell of its turns."""
        serve = self._client_hooks.methods.get(exchange.request.method)
        if serve is None:
            raise Fault("METHOD_NOT_FOUND", f"{exchange.request.method} needs a client that agreed on MCPL")
        serve(exchange, caller)

    async def _run(self, exchange: Exchange, work: Coroutine[Any, Any, object], principal_name: str) -> None:
        try:
            _answer(exchange, await while_wanted(exchange, work))
        except Fault as fault:
            _refuse(exchange, fault)
        finally:
            self._open_requests.add(principal_name, -1)

    async def _take(self, host: ClientHost, work: Coroutine[Any, Any, object]) -> None:
        try:
            await work
        except Fault:
            return  # A notification has no answer; the servers' parts are recorded.
        finally:
            self._running.add(host.key, -1)


def _answer(exchange: Exchange, result: object) -> None:
    members = msgspec.to_builtins(result)
    if exchange.dialect.modern:
        members = {"resultType": "complete", **members}
    exchange.result(msgspec.json.encode(members))


def _refuse(exchange: Exchange, fault: Fault) -> None:
    exchange.pass_failure(fault.render(ErrorDialect.MCPL))
