"""The hub put together from a configuration: every part made once, joined here, and told when that changes."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from interlock.client.dial import Dial, to_command, to_url
from interlock.client.peer import Identity
from interlock.config.settings import Config, Server
from interlock.hub.access.access import Access
from interlock.hub.access.desk import AccessDesk
from interlock.hub.access.grants import GRANTS, Grants
from interlock.hub.audit.audience import Audience
from interlock.hub.audit.claims import Claims
from interlock.hub.audit.counts import Counts
from interlock.hub.audit.forwarding import CURSORS, Forwarding
from interlock.hub.audit.head import HeadDamaged
from interlock.hub.audit.heads import ALONE, head_path, node_name
from interlock.hub.audit.journal import Journal
from interlock.hub.audit.recorder import Recorder
from interlock.hub.audit.retention import Pruner
from interlock.hub.catalog.clean import CLEAN
from interlock.hub.catalog.offer import Offer, Tool
from interlock.hub.catalog.pins import PINS, Pins
from interlock.hub.catalog.quarantine import Quarantine
from interlock.hub.catalog.remembered import remembered
from interlock.hub.catalog.views import Catalog
from interlock.hub.decisions.decision import DECISIONS, Question
from interlock.hub.decisions.desk import Desk
from interlock.hub.decisions.heralds import Heralds
from interlock.hub.decisions.inbox import Inbox, asker_of
from interlock.hub.decisions.rules import RULES
from interlock.hub.desks.errands import Errands
from interlock.hub.doors import Doors
from interlock.hub.gatehouse import Gatehouse
from interlock.hub.governing import Governing
from interlock.hub.housekeeping import Housekeeping
from interlock.hub.hub import Hub
from interlock.hub.kernel.governed import Governed
from interlock.hub.kernel.instructions import section
from interlock.hub.kernel.kernel import Kernel
from interlock.hub.kernel.meaning import EMBEDDINGS, Meaning
from interlock.hub.kernel.requests import Requests
from interlock.hub.kernel.search import ToolSearch
from interlock.hub.kernel.shelves import Shelves
from interlock.hub.kernel.telling import Telling
from interlock.hub.kernel.tokens import TokenCounts
from interlock.hub.keys import KEY_USES, KEYS, Keys
from interlock.hub.logs import Logs
from interlock.hub.notices import Notices
from interlock.hub.oauth.desk import OAuthDesk, open_desk
from interlock.hub.operating.keys import KeyDesk
from interlock.hub.operating.records import RecordDesk
from interlock.hub.permissions.desk import PermissionsDesk
from interlock.hub.permissions.entries import ENTRIES as PERMISSIONS
from interlock.hub.pipeline import Commit, Dispatch, Pipeline, Release
from interlock.hub.plan import Epoch
from interlock.hub.principals import Principal
from interlock.hub.rates import Rates
from interlock.hub.recording import Recording
from interlock.hub.request_states import RequestStates
from interlock.hub.results.measuring import Measuring
from interlock.hub.results.pages import Pages
from interlock.hub.sending import Room
from interlock.hub.spans.opening import open_spans
from interlock.hub.tasks.ledger import TASKS, Ledger
from interlock.hub.tasks.tracker import Tracker
from interlock.hub.upstreams.agreement import asking
from interlock.hub.upstreams.states import State
from interlock.hub.upstreams.upstream import Upstream
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.hub.validators.checking import Judging
from interlock.hub.validators.noticed import Noticed
from interlock.judge.secrets import redact
from interlock.protocols.mgp.permissions import Risk
from interlock.store import Collection, Store, StoreError
from interlock.transports.exchange import Service
from interlock.transports.parking import Limits as ParkingLimits
from interlock.transports.parking import Parking
from interlock.transports.resolving import Resolver
from interlock.transports.stdio.process import Command
from interlock.version import VERSION
from interlock.wire.errors import Fault
from interlock.wire.limits import Limits

if TYPE_CHECKING:
    from interlock.hub.oauth.issuers import Issuers

NOTICE_EVERY_S: Final = 0.05
"""Changes of the catalog within this time are told as one."""
CHORES_S: Final = 2.0
"""How long chores under way may take to finish when the hub goes."""
PRUNE_EVERY_S: Final = 3600.0
"""How often it is looked whether records are to go."""
DRAIN_S: Final = 10.0
"""How long calls under way may take to finish when a server or the hub goes."""


COLLECTIONS: Final[tuple[Collection[Any], ...]] = (
    KEYS,
    KEY_USES,
    GRANTS,
    DECISIONS,
    RULES,
    PINS,
    CLEAN,
    CURSORS,
    TASKS,
    PERMISSIONS,
    EMBEDDINGS,
)
"""Every collection that the hub keeps in its store."""


class Assembly:
    """A whole hub."""

    def __init__(self, config: Config, home: Path, parking: ParkingLimits | None = None) -> None:
        self.config = config
        self.home = home
        self.started = time.monotonic()
        self.listen = ""
        """Where HTTP is served, once it is."""
        self.begun = False
        """Whether the store is open and the servers are on their way."""
        self.epoch = Epoch()
        self.store: Store
        """What survives. Opened by `begin`."""
        self.keys = Keys(home)
        self.grants = Grants()
        self.access = Access(lambda: self.config, self.keys, self.grants)
        self.recorder: Recorder
        """What happened. Opened by `begin`."""
        self.node = ALONE
        """What this hub's chain of records is called."""
        self.journal = Journal(lambda: self.recorder)
        self.access_desk = AccessDesk(self.access, self.grants, self.journal)
        self.key_desk = KeyDesk(lambda: self.config, self.keys, self.access, self.journal)
        self.record_desk = RecordDesk(self)
        self.audience = Audience(self.access)
        self._claims = Claims(lambda: self.recorder, asyncio.get_running_loop().time, self._note)
        self.forwarding: Forwarding
        """Sends the record to audit servers. Made by `begin`."""
        self.rates = Rates(lambda: self.config, self.keys, asyncio.get_running_loop().time)
        self.logs = Logs()
        self.catalog = Catalog(self.epoch.advance)
        self.tokens = TokenCounts(self._changed)
        self.shelves = Shelves(self.catalog, self.tokens, self.access, self._deferred)
        self.notices = Notices(self.catalog, self.shelves)
        self.limits = _limits(config)
        self.upstreams = Upstreams(self._upstream)
        self.oauth: OAuthDesk | None = None
        """Access tokens, where the operator accepts them."""
        self.doors = Doors(lambda: self.config, self.keys, self.catalog, self.access, self._tokens)
        self.quarantine = Quarantine(config, self._offered, self._note)
        self._states = RequestStates(secrets.token_bytes(32))
        self._resolver = Resolver()
        self._parking_limits = parking
        self.parking = Parking(parking or _parking_limits(config), secrets.token_bytes(32))
        self.inbox = Inbox(
            lambda: self.config.hub.approvals.valid_s,
            stands=self._still_asks,
            record=self.journal.decided,
            record_rule=self.journal.rule,
        )
        self.meaning = Meaning(lambda: self.config.hub.embeddings, lambda: self.store, self._resolver, self._note)
        self.search = ToolSearch(
            self.catalog,
            self.tokens,
            self.meaning,
            self._connected,
            self._lock_s,
            self._risk_of,
            lambda server: (self.governing.trust_of(server), self.permissions.declared(server)),
        )
        self._requested = Errands()
        self.requests = Requests(self.inbox, self.access_desk, self._requested.begin, self._risk_of, self._note)
        telling = Telling(self.catalog, self.tokens, self.search.status, self._risk_of, self._needs)
        self.kernel = Kernel(
            self.catalog, self.shelves, self.search, self.tokens, telling, self.requests, self.notices.requested
        )
        self.heralds = Heralds(lambda: self.config.hub, self._resolver, self._note)
        self._desk = Desk(
            self.inbox,
            lambda: self.config.hub.approvals.hold_s,
            self._attended_by,
            self.parking,
            self._states,
            lambda server: self.governing.trust_of(server),
            self._risk_of,
        )
        self._pins = Pins(
            self.inbox, lambda: self.config.hub.mode, self.quarantine.take, self._relist, self._risk_of, self._note
        )
        self.judging = Judging(self._resolver)
        self.noticed = Noticed(self._note, lambda event, call, rules: self.recording.noticed(event, call, rules))
        self.counts = Counts()
        """How many calls there were and how long they took."""
        self.governing = Governing(
            lambda: self.config,
            self.upstreams,
            self.inbox,
            self.epoch,
            show=self._show,
            journal=self.journal,
            log=self._note,
        )
        self.permissions = self.governing.permissions
        self.permission_desk = PermissionsDesk(self.permissions, self.access, lambda: self.config.servers)
        self.pages = Pages(time.monotonic)
        self.measuring = Measuring()
        self.gatehouse = Gatehouse(
            access=self.access,
            governing=self.governing,
            rates=self.rates,
            judging=self.judging,
            measuring=self.measuring,
            pages=self.pages,
            noticed=self.noticed,
            short_of_scope=self._short_of_scope,
            is_attended=self._is_attended,
            log=self._note,
            clock=asyncio.get_running_loop().time,
        )
        self.gatehouse.renew(config)
        self.spans = open_spans(config.hub.tracing)
        """Spans of calls, where the operator wants them."""
        self.recording = self._recording(strict=config.hub.audit == "strict")
        self.kernel.governed = Governed(self.rates, self.recording, asyncio.get_running_loop().time)
        self.tasks = Tracker(
            Ledger(self._most_tasks),
            self.upstreams,
            lambda: self.recorder,
            lambda: int(self.config.hub.limits.task_s * 1000),
            asyncio.get_running_loop().time,
        )
        self.hub = Hub(
            doors=self.doors,
            catalog=self.catalog,
            shelves=self.shelves,
            kernel=self.kernel,
            access=self.access,
            access_desk=self.access_desk,
            upstreams=self.upstreams,
            notices=self.notices,
            audience=self.audience,
            make_pipeline=self._pipeline,
            states=self._states,
            recording=self.recording,
            kept=self.pages,
            parking=self.parking,
            tracker=self.tasks,
            finish_of=self.gatehouse.finish_of,
            limits=self.limits,
            info=msgspec.json.encode({"name": "interlock", "title": "Interlock", "version": VERSION}),
            room=_room(config),
            risk_of=self.governing.risk_of,
            clock=asyncio.get_running_loop().time,
        )
        self.service: Service = self.hub
        """What transports hand requests to: the hub, or where calls are traced what stands before it."""
        if self.spans is not None:
            from interlock.hub.spans.traced import TracedService

            self.service = TracedService(self.hub, self.spans)
        self._telling: asyncio.TimerHandle | None = None
        self._chores = Housekeeping()
        self._applying = asyncio.Lock()

    async def begin(self) -> None:
        """Open the store, and start every server at the same time, waiting for none of them."""
        where = store_of(self.config, self.home)
        self.store = await Store.open(where, COLLECTIONS, backups=self.home / "backups")
        self.node = node_name(self.config.hub.node, self.home, where)
        head = head_path(self.home, self.node)
        self.recorder = await Recorder.open(self.store, self.node, head, redact_with=redact)
        self.recording.recorder = self.recorder
        if self.config.hub.metrics != "off":
            self.recorder.follow(self.counts.take)
        self.recorder.follow(lambda records: self.audience.told(self.node, records))
        pruner = Pruner(self.store, self.recorder, head)
        self.forwarding = Forwarding(self.recorder, self.store, self._note)
        await self.keys.begin(self.store)
        self.keys.mirror.on_change(lambda *_: self._access_changed())
        await self.grants.begin(self.store, self._access_changed)
        await self.inbox.begin(self.store)
        await self.tasks.ledger.begin(self.store)
        self._pins.begin(self.store)
        self.requests.begin()
        self.quarantine.begin(self.store)
        await self.permissions.begin(self.store)
        self.inbox.on_change(self.heralds.heard)
        await self.apply(self.config)
        self.begun = True
        self._chores.look(self._reap)
        self._chores.chore(self.inbox.sweep)
        self._chores.chore(self.tasks.sweep)
        self._chores.chore(self._note_uses)
        self._chores.chore(lambda: self._prune(pruner), PRUNE_EVERY_S)
        self._chores.begin()

    async def apply(self, config: Config) -> list[str]:
        """Take over a configuration. Calls under way are not dropped; servers that did not change are not touched."""
        async with self._applying:
            self.config = config
            self.limits = _limits(config)
            self._states.life_s = config.hub.limits.parked_s
            self.parking.bound(self._parking_limits or _parking_limits(config))
            self.hub.sending.room = _room(config)
            self.recording.strict = config.hub.audit == "strict"
            self.epoch.advance()
            self.doors.forget()
            await self._renew_oauth()
            self.gatehouse.renew(config)
            enabled = {id_: server for id_, server in config.servers.items() if server.enabled}
            self.catalog.arrange(enabled, config.profiles)
            await self.quarantine.apply(config)
            changed = await self.upstreams.apply(enabled, DRAIN_S)
            for upstream in self.upstreams:
                upstream.timeouts = config.hub.timeouts
            await self.permissions.apply()
            await self._remember(changed)
            self._tell()
            return changed

    async def end(self) -> None:
        """End everything, calls under way first."""
        self._chores.rest()
        if self._telling is not None:
            self._telling.cancel()
        await self.tokens.close()
        await self.search.close()
        await self.governing.close()
        await self.heralds.close()
        if self.oauth is not None:
            await self.oauth.close()
        await self._requested.close()
        await self.hub.close()
        await self.upstreams.end(DRAIN_S)
        await self._chores.close(CHORES_S)
        await self._note_uses()
        await self.forwarding.close()
        await self.recorder.close()
        self.judging.close()
        await self.measuring.close()
        self.quarantine.close()
        await self.store.close()
        if self.spans is not None:
            await asyncio.to_thread(self.spans.close)

    def _upstream(self, id: str, settings: Server) -> Upstream:
        upstream = Upstream(
            id,
            settings,
            self.config.hub.timeouts,
            dial_for(settings, self.limits),
            Identity("interlock", VERSION, asking(b"{}"), title="Interlock"),
            self.logs,
            most_lanes=self.config.hub.limits.private_sessions_per_server,
            prepared=self.governing.prepared,
            offered=self._take,
            updated=self.notices.updated,
            subscriptions=self.notices.subscriptions,
            stepped=self._stepped,
            claimed=self._claims.take,
        )
        upstream.task_told, upstream.watched_tasks = self.tasks.told, self.tasks.followed
        return upstream

    def _recording(self, *, strict: bool) -> Recording:
        if self.spans is None:
            return Recording(strict=strict)
        from interlock.hub.spans.traced import TracedRecording

        return TracedRecording(self.spans, strict=strict)

    def _pipeline(self, commit: Commit, dispatch: Dispatch, release: Release) -> Pipeline:
        refused, would_refuse = self.recording.refused, self.noticed.call
        return Pipeline(
            lambda: self.gatehouse.plans,
            self.epoch,
            commit,
            dispatch,
            refused,
            would_refuse,
            release=release,
            desk=self._desk,
        )

    def _is_attended(self, principal: Principal) -> bool:
        """Whether a person is there to answer for a caller who is none: before their client, or at the inbox."""
        return principal.kind != "person" and (self.inbox.watched or self._attended_by(principal) is not None)

    async def _remember(self, servers: list[str]) -> None:
        """Servers that start on demand are known by their tools of earlier, until they run. One that was never seen is
        started once: nobody could ask for what nobody knows."""
        for server in servers:
            settings = self.config.servers.get(server)
            offer = self.catalog.offer(server)
            if settings is None or settings.start != "on-demand" or offer is None or offer.tools:
                continue
            known = await remembered(self.store, server, settings)
            if known is None:
                self.upstreams[server].want()
            else:
                await self.permissions.take(known)
                await self.quarantine.take(known)

    def _deferred(self, tool: Tool) -> str:
        """The question that is open about a permission that a tool lacks, unless another was denied."""
        lacking, _ = self.permissions.lacking(tool)
        if any(standing.grant == "denied" for standing in lacking):
            return ""
        return next((standing.decision for standing in lacking if standing.decision), "")

    def _needs(self, tool: Tool) -> tuple[str, ...]:
        return self.permissions.needs(tool)

    def _connected(self, server: str) -> bool:
        upstream = self.upstreams.get(server)
        return upstream is not None and upstream.state is State.CONNECTED

    async def _renew_oauth(self) -> None:
        """Tokens as the configuration says now. Those of before are worth nothing where it changed."""
        settings = self.config.hub.oauth
        if self.oauth is not None and self.oauth.settings == settings:
            return
        if self.oauth is not None:
            await self.oauth.close()
        self.oauth = None
        if settings.every:
            try:
                self.oauth = open_desk(
                    settings,
                    self._resolver,
                    lambda: self.listen,
                    self._note,
                    self.doors.forget,
                    lambda: self.access.now(),
                )
            except ValueError as cause:
                self._note("hub", f"no access token is accepted: {cause}")
            else:
                self.oauth.tick()
        self.keys.beside = (lambda hash_: None) if self.oauth is None else self.oauth.tokens.get
        self.access.short_of_right = (lambda *_: None) if self.oauth is None else self.oauth.tokens.short_of_right

    def _tokens(self) -> Issuers | None:
        return None if self.oauth is None else self.oauth.tokens

    def _short_of_scope(self, principal: Principal, exposed: str, server: str) -> Fault | None:
        return None if self.oauth is None else self.oauth.tokens.short_of_scope(principal, exposed, server)

    def _stepped(self, upstream: Upstream, before: State) -> None:
        self.journal.server_stepped(upstream.id, before, upstream.state, upstream.problem)
        if upstream.state is State.CONNECTED:
            self.forwarding.connected(upstream)

    def _still_asks(self, question: Question) -> bool:
        """Whether whoever asked may still do what they asked for, with the credential they asked with."""
        asker = asker_of(question)
        if question.kind != "tool_call" or not asker.id:
            return True
        asker = msgspec.structs.replace(asker, key=question.asked_with)
        rights = self.access.rights(asker)
        if rights is None or not rights.invokes(question.shown):
            return False
        return self.access.decision(asker, question.server, question.name).permission == "allow"

    def _attended_by(self, principal: Principal) -> str | None:
        agent = self.config.agents.get(principal.id) if principal.kind == "agent" else None
        return None if agent is None else agent.attended_by

    def _risk_of(self, tool: Tool) -> Risk:
        return self.governing.risk_of(tool)

    def _relist(self, server: str) -> None:
        upstream = self.upstreams.get(server)
        if upstream is not None:
            upstream.lists_changed()

    def _note(self, server: str, text: str) -> None:
        self.logs.add(server, "hub", text)

    def _access_changed(self) -> None:
        """Every caller and plan is old now, and lists may be: each is looked at when it is next asked for."""
        self.epoch.advance()
        self.doors.forget()
        self._changed()

    async def _note_uses(self) -> None:
        self.doors.note_uses()
        await self.keys.write_uses()

    async def _prune(self, pruner: Pruner) -> None:
        try:
            gone = await pruner.prune(self.config.hub.retention)
        except (StoreError, HeadDamaged) as cause:
            self._note("hub", f"old records could not be cut off: {cause}")
            return
        if gone:
            self._note("hub", f"{gone} records were cut off, as the retention settings say")

    def _lock_s(self) -> float:
        return self.config.hub.timeouts.lock_s

    async def _take(self, offer: Offer) -> None:
        """What a server offers, before any of it is shown: what its tools need, and whether they are the same."""
        await self.permissions.take(offer)
        await self._pins.take(offer)

    def _most_tasks(self) -> tuple[int, int]:
        limits = self.config.hub.limits
        return limits.tasks, limits.tasks_per_agent

    def _offered(self, offer: Offer) -> None:
        self._show(self.permissions.sifted(offer))

    def _show(self, offer: Offer) -> None:
        self.catalog.put(offer)
        self.tokens.count(offer.tools.values())
        if offer.instructions:
            self.tokens.counted([section(offer.server, offer.instructions)])
        self._changed()

    def _changed(self) -> None:
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(NOTICE_EVERY_S, self._tell)

    def _tell(self) -> None:
        self._telling = None
        self.notices.catalog_changed()
        self.requests.look_again()
        self.kernel.contexts.look_again()

    def _reap(self, now: float) -> None:
        for upstream in self.upstreams:
            upstream.reap_lanes(now)
        if self.oauth is not None:
            self.oauth.tick()


def store_of(config: Config, home: Path) -> str:
    """Where a hub keeps what must survive."""
    return config.hub.store or str(home / "hub.db")


def dial_for(settings: Server, limits: Limits) -> Dial:
    """How a server of the configuration is reached."""
    if settings.url is not None:
        return to_url(settings.url, settings.headers, limits)
    inherited = {name: os.environ[name] for name in settings.inherit_env if name in os.environ}
    return to_command(Command(settings.command, {**inherited, **settings.env}, settings.cwd), limits)


def _parking_limits(config: Config) -> ParkingLimits:
    limits = config.hub.limits
    return ParkingLimits(
        parked=limits.parked,
        per_owner=limits.parked_per_agent,
        seconds=limits.parked_s,
        held_bytes=limits.parked_bytes,
    )


def _room(config: Config) -> Room:
    limits = config.hub.limits
    return Room(limits.pending, limits.pending_per_server, limits.pending_per_agent)


def _limits(config: Config) -> Limits:
    limits = config.hub.limits
    return Limits(message_bytes=limits.message_bytes, depth=limits.depth, pending=limits.pending_per_server)
