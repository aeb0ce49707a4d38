"""MCP Live in a server (MCPL): the feature sets it declares, what its hosts enabled of them, and the events it pushes.

Every feature set is off until a host enables it. An update of a host holds at once.
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

import msgspec

from interlock.protocols.mcp import dialect as mcp_dialect
from interlock.protocols.mcpl.capabilities import Dialect
from interlock.protocols.mcpl.decoding import convert, decode
from interlock.protocols.mcpl.events import PushEvent, PushResult
from interlock.protocols.mcpl.feature_sets import SCOPE_LABEL, FeatureSet, Update, read_feature_set
from interlock.protocols.mcpl.live import ANSWER, Answer, LiveFilter
from interlock.protocols.mcpl.methods import METHODS, read_params
from interlock.protocols.mcpl.negotiation import Home, Offer, answer, read_offer
from interlock.protocols.mcpl.received import Selection, receipt, receive
from interlock.server.content import Members
from interlock.server.framing import Framing
from interlock.server.listeners import Listeners
from interlock.server.session import Exchange, Session
from interlock.signatures import DefinitionError
from interlock.wire.errors import Fault

UPDATE: Final = "featureSets/update"
PUSH: Final = "push/event"
ANSWER_S: Final = 60.0
"""How long a host of the stateless era may take to answer."""
MAX_HOSTS: Final = 4096

OnFeatures = Callable[[frozenset[str]], Any]


class Host:
    """A host that speaks MCPL on one session, and what it enabled."""

    __slots__ = ("dialect", "home", "selection")

    def __init__(self, offer: Offer, home: Home) -> None:
        self.dialect = offer.dialect
        self.home = home
        self.selection = Selection()


class Live:
    """The feature sets of one server and its hosts."""

    def __init__(self, listeners: Listeners, framing: Framing) -> None:
        self._listeners = listeners
        self._framing = framing
        self._declared: dict[str, dict[str, Any]] = {}
        self._hosts: dict[Session | str, Host] = {}
        """By session, or in the stateless era by the caller's owner."""
        self._waiting: dict[str, tuple[str, asyncio.Future[PushResult]]] = {}
        """Pushes on streams of the stateless era that were not answered yet: the owner, by the push's id."""
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
        problems = {read_feature_set(name, declaration, dialect).problem for dialect in Dialect}
        if "" not in problems:
            raise DefinitionError(f"the feature set {name!r} cannot be used: {', '.join(sorted(problems))}")
        self._declared[name] = declaration
        for session, host in list(self._hosts.items()):
            if host.dialect is Dialect.V0_4 and isinstance(session, Session):
                added = msgspec.json.encode({"added": {name: declaration}})
                session.notify("featureSets/changed", added)

    def on_features(self, callback: OnFeatures) -> None:
        """Call a function with the enabled feature sets after each update."""
        self._callbacks.append(callback)

    @property
    def enabled(self) -> frozenset[str]:
        """The feature sets that some host enabled."""
        return frozenset[str]().union(*(host.selection.enabled for host in self._hosts.values()))

    def agree(self, session: Session) -> Members:
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
        return wanted if wanted is not None and exchange.caller.owner in self._hosts else None

    def _host(self, dialect: mcp_dialect.Dialect) -> Host | None:
        if not self._declared:
            return None
        try:
            found = read_offer(dialect.capabilities.raw)
        except Fault:
            return None
        return None if found is None else Host(*found)

    def leave(self, session: Session) -> None:
        """Forget a session that is over."""
        if self._hosts.pop(session, None) is not None:
            self._tell()

    def on_notification(self, session: Session, method: str, params: bytes) -> None:
        """Take a host's notification, if it is an update of its feature sets."""
        host = self._hosts.get(session)
        if host is not None and method == UPDATE:
            try:
                self._take(host, params, request=False)
            except Fault:
                return  # A notification has no answer.

    def handlers(self) -> dict[str, Callable[[Exchange], None]]:
        """The handler of each method."""
        return {UPDATE: self._update, "mcpl/manifest": self._show, ANSWER: self._take_answer}

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
        hosts = [session for session, host in self._hosts.items() if feature in host.selection.enabled]
        return tuple(await asyncio.gather(*(self._push(session, feature, params) for session in hosts)))

    async def _push(self, host: Session | str, feature: str, params: bytes) -> PushResult:
        try:
            if isinstance(host, str):
                return await self._push_on_stream(host, feature, params)
            return msgspec.json.decode(await host.ask(PUSH, params), type=PushResult)
        except (Fault, msgspec.MsgspecError) as cause:
            return PushResult(False, reason=str(cause)[:1000])

    async def _push_on_stream(self, owner: str, feature: str, params: bytes) -> PushResult:
        """Push on a stream that the host opened. The host answers with a request of its own."""
        id_ = secrets.token_urlsafe(16)
        answered: asyncio.Future[PushResult] = asyncio.get_running_loop().create_future()
        self._waiting[id_] = (owner, answered)
        try:
            if not self._listeners.deliver(owner, PUSH, feature, params, id_):
                raise Fault("UPSTREAM_UNAVAILABLE", "the host has no stream open")
            return await asyncio.wait_for(answered, ANSWER_S)
        except TimeoutError:
            raise Fault("TIMEOUT", f"the host did not answer within {ANSWER_S:g} s") from None
        finally:
            del self._waiting[id_]

    def _take_answer(self, exchange: Exchange) -> None:
        """`dev.interlock/answer`: good only from the host that was asked."""
        said = decode(Answer, exchange.request.params)
        owner, answered = self._waiting.get(str(said.id), ("", None))
        if answered is None or owner != exchange.caller.owner:
            raise Fault("INVALID_PARAMS", "nothing waits for this answer", data={"field": "id"})
        if not answered.done():
            if said.error is not None:
                answered.set_result(PushResult(False, reason=said.error.message[:1000]))
            else:
                answered.set_result(convert(PushResult, said.result, "result"))
        self._finish(exchange, {"taken": True})

    def _finish(self, exchange: Exchange, result: Members) -> None:
        self._framing.answer(exchange, msgspec.json.encode(result)[1:-1])

    def _update(self, exchange: Exchange) -> None:
        host = self._of(exchange)
        declared = self._take(host, exchange.request.params, request=True)
        self._finish(exchange, msgspec.to_builtins(receipt(host.selection, declared)))

    def _show(self, exchange: Exchange) -> None:
        self._finish(exchange, self._manifest(self._of(exchange).dialect))

    def _of(self, exchange: Exchange) -> Host:
        host = self._hosts.get(exchange.caller.owner if exchange.session is None else exchange.session)
        if host is None and exchange.session is None and len(self._hosts) < MAX_HOSTS:
            host = self._host(exchange.dialect)
            if host is not None:
                self._hosts[exchange.caller.owner] = host
        if host is None:
            raise Fault("METHOD_NOT_FOUND", f"{exchange.request.method} needs a host that speaks MCPL")
        return host

    def _take(self, host: Host, params: bytes, *, request: bool) -> Mapping[str, FeatureSet]:
        update = read_params(METHODS[UPDATE], params)
        assert isinstance(update, Update)
        declared = self._sound(host.dialect)
        host.selection = receive(host.selection, declared, update, host.dialect, request=request)
        self._tell()
        return declared

    def _sound(self, dialect: Dialect) -> dict[str, FeatureSet]:
        read = (read_feature_set(name, said, dialect) for name, said in self._declared.items())
        return {found.name: found for found in read if not found.problem}

    def _manifest(self, dialect: Dialect) -> Members:
        sets = {name: self._declared[name] for name in self._sound(dialect)}
        uses = {use for declaration in sets.values() for use in declaration["uses"]}
        manifest: Members = {"version": dialect.value, "featureSets": sets}
        if "pushEvents" in uses:
            manifest["pushEvents"] = True
        return manifest

    def _tell(self) -> None:
        for callback in self._callbacks:
            told = callback(self.enabled)
            if inspect.isawaitable(told):
                running = asyncio.ensure_future(told)
                self._running.add(running)
                running.add_done_callback(self._running.discard)


def with_live(capabilities: Mapping[str, object], live: Members) -> dict[str, object]:
    """Capabilities with those of MCPL, in the place where they belong."""
    made = dict(capabilities)
    for home, said in live.items():
        known, ours = made.get(home), cast(Mapping[str, object], said)
        made[home] = {**known, **ours} if isinstance(known, Mapping) else ours
    return made
