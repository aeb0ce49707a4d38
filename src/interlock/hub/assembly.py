"""The hub put together from a configuration: every part made once, joined here, and told when that changes."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec

from interlock.client.dial import Dial, to_command, to_url
from interlock.client.peer import Identity
from interlock.config.settings import Config, Server
from interlock.hub.access.access import Access
from interlock.hub.access.desk import AccessDesk
from interlock.hub.access.grants import GRANTS, Grants
from interlock.hub.audit.recorder import Recorder
from interlock.hub.call import Call, Target
from interlock.hub.catalog.clean import CLEAN
from interlock.hub.catalog.offer import Offer
from interlock.hub.catalog.pins import PINS, Pins
from interlock.hub.catalog.quarantine import Quarantine
from interlock.hub.catalog.remembered import remembered
from interlock.hub.catalog.views import Catalog
from interlock.hub.decisions.decision import DECISIONS
from interlock.hub.decisions.desk import Desk
from interlock.hub.decisions.heralds import Heralds
from interlock.hub.decisions.inbox import Inbox
from interlock.hub.decisions.rules import RULES
from interlock.hub.doors import Doors
from interlock.hub.gates.access import AccessGate
from interlock.hub.gates.confirm import ConfirmGate
from interlock.hub.gates.headers import HeadersGate
from interlock.hub.gates.risk import RiskGate
from interlock.hub.gates.schema import SchemaGate
from interlock.hub.gates.validators import ValidatorsGate
from interlock.hub.hub import Hub
from interlock.hub.kernel.kernel import Kernel
from interlock.hub.kernel.meaning import EMBEDDINGS, Meaning
from interlock.hub.kernel.requests import Requests, off_loop
from interlock.hub.kernel.search import ToolSearch
from interlock.hub.kernel.shelves import Shelves
from interlock.hub.kernel.tokens import TokenCounts
from interlock.hub.keys import KEY_USES, KEYS, Keys
from interlock.hub.logs import Logs
from interlock.hub.notices import Notices
from interlock.hub.pipeline import Commit, Dispatch, Pipeline, Release
from interlock.hub.plan import Epoch, Gate, Plans
from interlock.hub.principals import Principal
from interlock.hub.rates import Rates
from interlock.hub.recording import Recording
from interlock.hub.request_states import RequestStates
from interlock.hub.results.finishing import finish_for
from interlock.hub.results.pages import Pages
from interlock.hub.sending import Room
from interlock.hub.upstreams.states import State
from interlock.hub.upstreams.upstream import Upstream
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.hub.validators.checking import Judging
from interlock.judge.findings import Finding
from interlock.judge.secrets import redact
from interlock.store import Collection, Store
from interlock.transports.parking import Limits as ParkingLimits
from interlock.transports.parking import Parking
from interlock.transports.resolving import Resolver
from interlock.transports.stdio.process import Command
from interlock.wire.limits import Limits

VERSION: Final = version("interlock")
NOTICE_EVERY_S: Final = 0.05
"""Changes of the catalog within this time are told as one."""
REAP_EVERY_S: Final = 15.0
DRAIN_S: Final = 10.0
"""How long calls under way may take to finish when a server or the hub goes."""


CHAIN: Final = "hub"
"""The name of this hub's chain of records."""
COLLECTIONS: Final[tuple[Collection[Any], ...]] = (KEYS, KEY_USES, GRANTS, DECISIONS, RULES, PINS, CLEAN, EMBEDDINGS)
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
        self.access_desk = AccessDesk(self.access, self.grants)
        self.rates = Rates(lambda: self.config, self.keys, asyncio.get_running_loop().time)
        self.logs = Logs()
        self.catalog = Catalog(self.epoch.advance)
        self.tokens = TokenCounts(self._changed)
        self.shelves = Shelves(self.catalog, self.tokens, self.access)
        self.notices = Notices(self.catalog, self.shelves)
        self.limits = _limits(config)
        self.upstreams = Upstreams(self._upstream)
        self.doors = Doors(lambda: self.config, self.keys, self.catalog, self.access)
        self.quarantine = Quarantine(config, self._offered, self._note)
        self.inbox = Inbox(lambda: self.config.hub.approvals.valid_s)
        self.meaning = Meaning(lambda: self.config.hub.embeddings, lambda: self.store, Resolver(), self._note)
        self.search = ToolSearch(self.catalog, self.tokens, self.meaning, self._connected)
        self._requested: set[asyncio.Task[None]] = set()
        self.requests = Requests(self.inbox, self.access_desk, off_loop(self._requested), self._note)
        tell = self.notices.requested
        self.kernel = Kernel(self.catalog, self.shelves, self.search, self.tokens, self.requests, tell)
        self.heralds = Heralds(lambda: self.config.hub, self._note)
        self._desk = Desk(self.inbox, lambda: self.config.hub.approvals.hold_s, self._attended_by)
        self._pins = Pins(self.inbox, lambda: self.config.hub.mode, self.quarantine.take, self._relist, self._note)
        self.judging = Judging(Resolver())
        self.would_refuse: Counter[tuple[str, str]] = Counter()
        """How often calls went out that a stricter mode would have refused, by server and rule."""
        self.flagged: Counter[tuple[str, str]] = Counter()
        """How often something was flagged in results, by server and rule."""
        self.pages = Pages(time.monotonic)
        self._plans: Plans
        self._renew_gates()
        self.parking = Parking(parking or ParkingLimits(), secrets.token_bytes(32))
        self.recorder: Recorder
        """What happened. Opened by `begin`."""
        self.recording = Recording(strict=config.hub.audit == "strict")
        self.hub = Hub(
            doors=self.doors,
            catalog=self.catalog,
            shelves=self.shelves,
            kernel=self.kernel,
            access=self.access,
            access_desk=self.access_desk,
            upstreams=self.upstreams,
            notices=self.notices,
            make_pipeline=self._pipeline,
            states=RequestStates(secrets.token_bytes(32)),
            recording=self.recording,
            kept=self.pages,
            parking=self.parking,
            limits=self.limits,
            info=msgspec.json.encode({"name": "interlock", "title": "Interlock", "version": VERSION}),
            room=_room(config),
            clock=asyncio.get_running_loop().time,
        )
        self._telling: asyncio.TimerHandle | None = None
        self._reaper: asyncio.TimerHandle | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._noting: asyncio.Task[None] | None = None
        self._applying = asyncio.Lock()

    async def begin(self) -> None:
        """Open the store, and start every server at the same time, waiting for none of them."""
        where = self.config.hub.store or self.home / "hub.db"
        self.store = await Store.open(where, COLLECTIONS, backups=self.home / "backups")
        self.recorder = await Recorder.open(self.store, CHAIN, self.home / "audit.head", redact_with=redact)
        self.recording.recorder = self.recorder
        await self.keys.begin(self.store)
        self.keys.mirror.on_change(lambda *_: self._access_changed())
        await self.grants.begin(self.store, self._access_changed)
        await self.inbox.begin(self.store)
        self._pins.begin(self.store)
        self.requests.begin()
        self.quarantine.begin(self.store)
        self.inbox.on_change(self.heralds.heard)
        await self.apply(self.config)
        self.begun = True
        self._reap()

    async def apply(self, config: Config) -> list[str]:
        """Take over a configuration. Calls under way are not dropped; servers that did not change are not touched."""
        async with self._applying:
            self.config = config
            self.limits = _limits(config)
            self.hub.sending.room = _room(config)
            self.recording.strict = config.hub.audit == "strict"
            self.epoch.advance()
            self.doors.forget()
            self._renew_gates()
            enabled = {id_: server for id_, server in config.servers.items() if server.enabled}
            self.catalog.arrange(enabled, config.profiles)
            await self.quarantine.apply(config)
            changed = await self.upstreams.apply(enabled, DRAIN_S)
            await self._remember(changed)
            self._tell()
            return changed

    async def end(self) -> None:
        """End everything, calls under way first."""
        for timer in (self._telling, self._reaper):
            if timer is not None:
                timer.cancel()
        await self.tokens.close()
        await self.search.close()
        await self.heralds.close()
        await self.hub.close()
        await self.upstreams.end(DRAIN_S)
        if self._sweeping is not None:
            await asyncio.gather(self._sweeping, return_exceptions=True)
        if self._noting is not None:
            await self._noting
        await self._note_uses()
        await self.recorder.close()
        self.judging.close()
        self.quarantine.close()
        await self.store.close()

    def _upstream(self, id: str, settings: Server) -> Upstream:
        return Upstream(
            id,
            settings,
            self.config.hub.timeouts,
            dial_for(settings, self.limits),
            Identity("interlock", VERSION, title="Interlock"),
            self.logs,
            most_lanes=self.config.hub.limits.private_sessions_per_server,
            offered=self._pins.take,
            updated=self.notices.updated,
            subscriptions=self.notices.subscriptions,
        )

    def _pipeline(self, commit: Commit, dispatch: Dispatch, release: Release) -> Pipeline:
        refused, would_refuse = self.recording.refused, self._would_refuse
        return Pipeline(
            lambda: self._plans, self.epoch, commit, dispatch, refused, would_refuse, release=release, desk=self._desk
        )

    def _renew_gates(self) -> None:
        config = self.config
        gates: list[Gate] = [
            AccessGate(self.access, asyncio.get_running_loop().time),
            HeadersGate(),
            SchemaGate(),
            ValidatorsGate(config.servers, config.hub.mode, self.judging, self._is_attended),
            RiskGate(config.hub.mode, self._note),
            ConfirmGate(config.agents, config.hub.mode, self._note),
        ]
        finishes = {
            name: finish_for(server, self.pages, self.judging, self._flagged) for name, server in config.servers.items()
        }
        self._plans = Plans(
            gates,
            self._timeout_of,
            lambda target: finishes.get(target.server) if target.kind == "tool" else None,
            self.rates.of,
        )

    def _is_attended(self, principal: Principal) -> bool:
        """Whether a person is there to answer for a caller who is none: before their client, or at the inbox."""
        return principal.kind != "person" and (self.inbox.watched or self._attended_by(principal) is not None)

    async def _remember(self, servers: list[str]) -> None:
        """Servers that start on demand are known by their tools of earlier, until they run."""
        for server in servers:
            settings = self.config.servers.get(server)
            offer = self.catalog.offer(server)
            if settings is None or settings.start != "on-demand" or offer is None or offer.tools:
                continue
            known = await remembered(self.store, server, settings)
            if known is not None:
                await self.quarantine.take(known)

    def _connected(self, server: str) -> bool:
        upstream = self.upstreams.get(server)
        return upstream is not None and upstream.state is State.CONNECTED

    def _attended_by(self, principal: Principal) -> str | None:
        agent = self.config.agents.get(principal.id) if principal.kind == "agent" else None
        return None if agent is None else agent.attended_by

    def _relist(self, server: str) -> None:
        upstream = self.upstreams.get(server)
        if upstream is not None:
            upstream.lists_changed()

    def _note(self, server: str, text: str) -> None:
        self.logs.add(server, "hub", text)

    def _flagged(self, call: Call, findings: tuple[Finding, ...]) -> None:
        rules = sorted({finding.rule for finding in findings})
        for rule in rules:
            self.flagged[call.target.server, rule] += 1
        told = f"flagged in a result of {call.target.name} for {call.caller.owner}: {', '.join(rules)}"
        self.logs.add(call.target.server, "hub", told)

    def _would_refuse(self, call: Call, findings: tuple[Finding, ...]) -> None:
        """Rules and names only: what was sent may hold secrets, and belongs in no log."""
        target = call.target
        rules = sorted({finding.rule for finding in findings})
        for rule in rules:
            self.would_refuse[target.server, rule] += 1
        told = f"would refuse {target.name} of {call.caller.owner}: {', '.join(rules)}"
        self.logs.add(target.server, "hub", told)

    def _access_changed(self) -> None:
        """Every plan is old now, and lists may be: both are looked at when they are next asked for."""
        self.epoch.advance()
        self._changed()

    async def _note_uses(self) -> None:
        self.doors.note_uses()
        await self.keys.write_uses()

    def _timeout_of(self, target: Target) -> float:
        server = self.config.servers.get(target.server)
        own = None if server is None else server.timeout_s
        return own if own is not None else self.config.hub.timeouts.tool_s

    def _offered(self, offer: Offer) -> None:
        self.catalog.put(offer)
        self.tokens.count(offer.tools.values())
        self._changed()

    def _changed(self) -> None:
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(NOTICE_EVERY_S, self._tell)

    def _tell(self) -> None:
        self._telling = None
        self.notices.catalog_changed()
        self.requests.look_again()

    def _reap(self) -> None:
        now = asyncio.get_running_loop().time()
        for upstream in self.upstreams:
            upstream.reap_lanes(now)
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.ensure_future(self.inbox.sweep())
        if self._noting is None or self._noting.done():
            self._noting = asyncio.ensure_future(self._note_uses())
        self._reaper = asyncio.get_running_loop().call_later(REAP_EVERY_S, self._reap)


def dial_for(settings: Server, limits: Limits) -> Dial:
    """How a server of the configuration is reached."""
    if settings.url is not None:
        return to_url(settings.url, settings.headers, limits)
    inherited = {name: os.environ[name] for name in settings.inherit_env if name in os.environ}
    return to_command(Command(settings.command, {**inherited, **settings.env}, settings.cwd), limits)


def _room(config: Config) -> Room:
    limits = config.hub.limits
    return Room(limits.pending, limits.pending_per_server, limits.pending_per_agent)


def _limits(config: Config) -> Limits:
    limits = config.hub.limits
    return Limits(message_bytes=limits.message_bytes, depth=limits.depth, pending=limits.pending_per_server)
