"""MCP Live in a server (MCPL): the feature sets it declares, what its hosts enabled of them, and the events it pushes.

Every feature set is off until a host enables it. An update of a host holds at once.
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from interlock.protocols.mcp import dialect as mcp_dialect
from interlock.protocols.mcpl.capabilities import CHANNELS_REGISTER, INFERENCE_STREAMING, McplDialect, refused
from interlock.protocols.mcpl.decoding import decode
from interlock.protocols.mcpl.dialect_manifests import manifest, read_in, spoken
from interlock.protocols.mcpl.errors import feature_set_disabled, inference_in_hook
from interlock.protocols.mcpl.events import PushEvent, PushResult
from interlock.protocols.mcpl.feature_sets import SCOPE_LABEL, FeatureSet, FeatureSetsUpdate
from interlock.protocols.mcpl.inference import InferenceChunk, InferenceRequest, InferenceResult, ModelInfo
from interlock.protocols.mcpl.live import ANSWER, LiveFilter
from interlock.protocols.mcpl.manifests import ManifestChanged, revision_of
from interlock.protocols.mcpl.methods import METHODS, read_params
from interlock.protocols.mcpl.negotiation import McplPlace, answer, read_offer
from interlock.protocols.mcpl.scopes import ElevateParams, ElevateResult, Scope
from interlock.protocols.mcpl.server_rights import ServerRights, receipt, receive
from interlock.server.live.channels import Channels
from interlock.server.live.handlers import NOTIFICATIONS, REQUESTS, AuthorHandler, LiveHandlers, in_hook
from interlock.server.requests.content import Members
from interlock.server.requests.framing import Framing
from interlock.server.requests.listeners import Listeners
from interlock.server.requests.session import Exchange, ServerSession
from interlock.server.requests.threads import Threads
from interlock.signatures import DefinitionError
from interlock.transports.host_requests import HostKey, HostRequests, OnChunk
from interlock.wire.errors import Fault

UPDATE: Final = "featureSets/update"
PUSH: Final = "push/event"
INFERENCE: Final = "inference/request"
ELEVATE: Final = "scope/elevate"
INFERENCE_S: Final = 600.0
"""How long a host may take for an inference."""
PERSON_S: Final = 600.0
"""How long a host may take to ask a person for a scope."""
MAX_HOSTS: Final = 4096

OnFeatures = Callable[[frozenset[str]], Any]


class LiveHost:
    """A host that speaks MCPL on one session, and what it enabled."""

    __slots__ = ("dialect", "home", "lacks", "selection")

    def __init__(self, dialect: McplDialect, home: McplPlace, lacks: frozenset[str]) -> None:
        self.dialect = dialect
        self.home = home
        self.lacks = lacks
        """The capabilities that it said it does not have. One that it does not mention may be there."""
        self.selection = ServerRights()


class LiveFeatures:
    """The feature sets of one server and its hosts."""

    def __init__(self, listeners: Listeners, framing: Framing, threads: Threads) -> None:
        self._framing = framing
        self._declared: dict[str, dict[str, Any]] = {}
        self._hosts: dict[HostKey, LiveHost] = {}
        self._requests = HostRequests(listeners)
        listeners.follow_with(self._requests)
        self._functions = LiveHandlers(threads, framing)
        self.channels = Channels(self._requests)
        self._callbacks: list[OnFeatures] = []
        self._running: set[asyncio.Future[Any]] = set()

    def declare(
        self, name: str, description: str, uses: Sequence[str], scoped: bool, scope_label: str | None, rollback: bool
    ) -> None:
        """Declare a feature set. Raises DefinitionError for one that no host could enable."""
        declaration: dict[str, Any] = {"description": description, "uses": list(uses)}
        if scoped:
            declaration["scoped"] = True
        if scope_label is not None:
            declaration["_meta"] = {SCOPE_LABEL: scope_label}
        if rollback:
            declaration["rollback"] = True
        problems = {read_in(name, declaration, dialect).problem for dialect in McplDialect}
        if "" not in problems:
            raise DefinitionError(f"the feature set {name!r} cannot be used: {', '.join(sorted(problems))}")
        self._declared[name] = declaration
        self._announce({"added": {name: declaration}})

    def withdraw(self, name: str) -> None:
        """Declare a feature set no longer. It is off at once. Raises LookupError."""
        if self._declared.pop(name, None) is None:
            raise LookupError(f"the server declares no feature set {name!r}")
        for host in self._hosts.values():
            enabled = host.selection.enabled - {name}
            host.selection = msgspec.structs.replace(host.selection, enabled=enabled)
        self._announce({"removed": [name]})
        self._tell()

    def _announce(self, change: Members) -> None:
        """Tell every host that the feature sets changed: what changed (0.4), or that it may look again (0.5)."""
        for key, host in list(self._hosts.items()):
            if host.dialect is McplDialect.V0_4:
                self._requests.tell(key, "featureSets/changed", msgspec.json.encode(change))
            else:
                notice = ManifestChanged(revision_of(self._manifest(host.dialect)), ("featureSets",))
                self._requests.tell(key, "mcpl/manifestChanged", msgspec.json.encode(notice))

    def handle(self, method: str, function: Callable[..., Any], feature: str, use: str, *, blocking: bool) -> None:
        """Have a function called for a method of hosts. Raises DefinitionError for a feature set that lacks `use`."""
        declaration = self._declared.get(feature)
        if feature and (
            declaration is None or not any(declared_use.startswith(use) for declared_use in declaration["uses"])
        ):
            raise DefinitionError(f"{method} needs server.feature({feature!r}, ..., uses=[{use!r}]) before it")
        self._functions.add(method, AuthorHandler(function, feature, blocking))

    def on_features(self, callback: OnFeatures) -> None:
        """Call a function with the enabled feature sets after each update."""
        self._callbacks.append(callback)

    @property
    def enabled(self) -> frozenset[str]:
        """The feature sets that some host enabled."""
        return frozenset[str]().union(*(host.selection.enabled for host in self._hosts.values()))

    def agree(self, session: ServerSession) -> Members:
        """Agree on MCPL with a client that offers it. Returns the capabilities that say so, in its place."""
        host = self._host(session.dialect)
        if host is None:
            return {}
        self._hosts[session] = host
        return answer(self._manifest(host.dialect), host.home)

    def offered(self, dialect: mcp_dialect.Dialect) -> Members:
        """The capabilities that answer a client of the stateless era, in its place."""
        host = self._host(dialect)
        return {} if host is None else answer(self._manifest(host.dialect), host.home)

    def grant(self, exchange: Exchange, wanted: LiveFilter | None) -> LiveFilter | None:
        """The part of a stream that events may take: all that a host asks for."""
        return wanted if wanted is not None and exchange.caller.principal_name in self._hosts else None

    def on_stream(self, exchange: Exchange) -> None:
        """A stream for messages of the server was opened."""
        self.channels.on_stream(exchange.caller.principal_name)

    def _host(self, dialect: mcp_dialect.Dialect) -> LiveHost | None:
        if not self._declared:
            return None
        try:
            found = read_offer(dialect.capabilities.raw)
        except Fault:
            return None
        if found is None:
            return None
        dialect_ = spoken(self._declared, found[0].dialect)
        return LiveHost(dialect_, found[1], refused(found[0].manifest, dialect_))

    def leave(self, session: ServerSession) -> None:
        """Forget a session that is over."""
        if self._hosts.pop(session, None) is not None:
            self.channels.leave(session)
            self._tell()

    def on_notification(self, key: HostKey, method: str, params: bytes) -> None:
        """Take a host's notification: an update of its feature sets, a chunk, or one for a function of the author."""
        host = self._hosts.get(key)
        if host is None:
            return
        try:
            if method == UPDATE:
                self._take(key, host, params, request=False)
            elif method == "inference/chunk":
                self._requests.on_chunk(key, decode(InferenceChunk, params))
            elif method in NOTIFICATIONS:
                self._functions.notification(method, params, host.dialect, host.selection.enabled)
        except Fault:
            return  # A notification has no answer.

    def handlers(self) -> dict[str, Callable[[Exchange], None]]:
        """The handler of each method."""
        own: dict[str, Callable[[Exchange], None]] = dict.fromkeys(REQUESTS, self._call)
        own |= {UPDATE: self._update, "mcpl/manifest": self._show, "channels/list": self._list_channels}
        return own | {ANSWER: self._take_answer}

    async def push(
        self,
        feature: str,
        content: str | Iterable[Mapping[str, Any]],
        event_id: str | None,
        origin: Mapping[str, Any] | None,
        tags: Sequence[str],
    ) -> tuple[PushResult, ...]:
        """Push an event to every host that enabled the feature set. Returns their answers."""
        if feature not in self._declared:
            raise LookupError(f"the server declares no feature set {feature!r}")
        blocks = content if isinstance(content, str) else list(content)
        event = {
            "featureSet": feature,
            "eventId": event_id or secrets.token_urlsafe(16),
            "timestamp": datetime.now(UTC).isoformat(),
            "payload": {"content": [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks},
        }
        if origin:
            event["origin"] = dict(origin)
        if tags:
            event["tags"] = list(tags)
        params = msgspec.json.encode(event)
        msgspec.json.decode(params, type=PushEvent)  # an event that no host could take fails here
        return tuple(await asyncio.gather(*(self._push(host, feature, params) for host in self._enabled_at(feature))))

    async def _push(self, host: HostKey, feature: str, params: bytes) -> PushResult:
        try:
            return msgspec.json.decode(await self._requests.ask(host, PUSH, feature, params), type=PushResult)
        except (Fault, msgspec.MsgspecError) as cause:
            return PushResult(False, reason=str(cause)[:1000])

    async def infer(self, request: InferenceRequest, on_chunk: OnChunk | None) -> InferenceResult:
        """Have a host's model write something. Raises LookupError, or the host's refusal as a `Fault`."""
        feature = request.feature_set
        if feature not in self._declared:
            raise LookupError(f"the server declares no feature set {feature!r}")
        if in_hook():
            raise inference_in_hook(feature)
        hosts = self._enabled_at(feature)
        if not hosts:
            raise feature_set_disabled(feature, McplDialect.V0_4, can_enable=True)
        in_pieces = INFERENCE_STREAMING not in self._hosts[hosts[0]].lacks
        params = msgspec.json.encode(msgspec.structs.replace(request, stream=request.stream and in_pieces))
        reader = on_chunk if in_pieces else None
        answer = await self._requests.ask(hosts[0], INFERENCE, feature, params, timeout_s=INFERENCE_S, on_chunk=reader)
        result = decode(InferenceResult, answer, "result")
        if on_chunk is not None and reader is None:
            on_chunk(result.content)  # a host that does not stream gives it in one piece
        return result

    async def elevate(self, host: HostKey | None, feature: str, scope: Scope) -> ElevateResult:
        """Ask for a scope: this host, or without one the first that enabled the feature set.

        Raises LookupError, or the host's refusal as a `Fault`.
        """
        if feature not in self._declared:
            raise LookupError(f"the server declares no feature set {feature!r}")
        hosts = [key for key in self._enabled_at(feature) if host in (None, key)]
        if not hosts:
            raise feature_set_disabled(feature, McplDialect.V0_4, can_enable=True)
        params = msgspec.json.encode(ElevateParams(feature, scope))
        answer = await self._requests.ask(hosts[0], ELEVATE, feature, params, timeout_s=PERSON_S)
        return decode(ElevateResult, answer, "result")

    async def model_info(self) -> ModelInfo:
        """The model of the first host that lets the server use one. Raises a `Fault`."""
        for name, declaration in self._declared.items():
            hosts = self._enabled_at(name) if "inferenceRequest" in declaration["uses"] else []
            if hosts:
                return decode(ModelInfo, await self._requests.ask(hosts[0], "model/info", name, b"{}"), "result")
        raise Fault("FEATURE_SET_DISABLED", "no host enabled a feature set that uses inferenceRequest")

    def _enabled_at(self, feature: str) -> list[HostKey]:
        return [key for key, host in self._hosts.items() if feature in host.selection.enabled]

    def _finish(self, exchange: Exchange, result: Members) -> None:
        self._framing.answer(exchange, msgspec.json.encode(result)[1:-1])

    def _update(self, exchange: Exchange) -> None:
        host = self._of(exchange)
        declared = self._take(_key(exchange), host, exchange.request.params, request=True)
        self._finish(exchange, msgspec.to_builtins(receipt(host.selection, declared)))

    def _show(self, exchange: Exchange) -> None:
        self._finish(exchange, self._manifest(self._of(exchange).dialect))

    def _take_answer(self, exchange: Exchange) -> None:
        self._requests.on_answer(exchange.caller.principal_name, exchange.request.params)
        self._finish(exchange, {"taken": True})

    def _call(self, exchange: Exchange) -> None:
        host = self._of(exchange)
        self._functions.request(exchange, host.dialect, host.selection.enabled)

    def _list_channels(self, exchange: Exchange) -> None:
        self._of(exchange)
        self._finish(exchange, msgspec.to_builtins(self.channels.listed()))

    def _of(self, exchange: Exchange) -> LiveHost:
        host = self._hosts.get(_key(exchange))
        if host is None and exchange.session is None and len(self._hosts) < MAX_HOSTS:
            host = self._host(exchange.dialect)
            if host is not None:
                self._hosts[exchange.caller.principal_name] = host
        if host is None:
            raise Fault("METHOD_NOT_FOUND", f"{exchange.request.method} needs a host that speaks MCPL")
        return host

    def _take(self, key: HostKey, host: LiveHost, params: bytes, *, request: bool) -> Mapping[str, FeatureSet]:
        update = read_params(METHODS[UPDATE], params)
        assert isinstance(update, FeatureSetsUpdate)
        declared = self._sound(host.dialect)
        selection = receive(host.selection, declared, update, host.dialect, request=request)
        # A set that needs a capability which the host lacks stays off, even if the update enables it.
        usable = frozenset(name for name in selection.enabled if not declared[name].needs & host.lacks)
        host.selection = msgspec.structs.replace(selection, enabled=usable)
        uses = {use for name in usable for use in self._declared[name]["uses"]}
        registers = CHANNELS_REGISTER not in host.lacks and any(use.startswith("channels.") for use in uses)
        self.channels.on_update(key, enabled=registers)
        self._tell()
        return declared

    def _sound(self, dialect: McplDialect) -> dict[str, FeatureSet]:
        read = (read_in(name, declaration, dialect) for name, declaration in self._declared.items())
        return {found.name: found for found in read if not found.problem}

    def _manifest(self, dialect: McplDialect) -> Members:
        return manifest(self._declared, dialect, blocking=self._functions.blocking)

    def _tell(self) -> None:
        for callback in self._callbacks:
            outcome = callback(self.enabled)
            if inspect.isawaitable(outcome):
                running = asyncio.ensure_future(outcome)
                self._running.add(running)
                running.add_done_callback(self._running.discard)


def _key(exchange: Exchange) -> HostKey:
    return exchange.caller.principal_name if exchange.session is None else exchange.session
