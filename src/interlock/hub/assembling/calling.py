"""How calls go through: what judges them, what is done to results, tasks, the record of calls, and the hub itself."""

from __future__ import annotations

import asyncio
import time

import msgspec

from interlock.config.settings import Config
from interlock.hub.assembling.admitting import Admitting
from interlock.hub.assembling.deciding import Deciding
from interlock.hub.assembling.gatehouse import Gatehouse
from interlock.hub.assembling.ground import Ground
from interlock.hub.assembling.showing import Showing
from interlock.hub.audit.recording import Recording
from interlock.hub.bridges.request_states import RequestStates
from interlock.hub.carrying.sending import Room
from interlock.hub.hub import Hub
from interlock.hub.pipeline import Commit, Dispatch, Pipeline, Release
from interlock.hub.results.measuring import Measuring
from interlock.hub.results.pages import Pages
from interlock.hub.spans.opening import open_spans
from interlock.hub.tasks.ledger import Ledger
from interlock.hub.tasks.tracker import Tracker
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.hub.validators.checking import Judging
from interlock.hub.validators.noticed import Noticed
from interlock.transports.call_parking import CallParking
from interlock.transports.exchange import Service
from interlock.version import VERSION
from interlock.wire.limits import Limits


class Calling:
    """Everything that a call runs through."""

    def __init__(
        self,
        ground: Ground,
        admitting: Admitting,
        deciding: Deciding,
        showing: Showing,
        upstreams: Upstreams,
        parking: CallParking,
        states: RequestStates,
        limits: Limits,
    ) -> None:
        self._ground = ground
        self._deciding = deciding
        self._states = states
        clock = asyncio.get_running_loop().time
        self.judging = Judging(ground.resolver)
        self.noticed = Noticed(ground.note, lambda event, call, rules: self.recording.noticed(event, call, rules))
        self.pages = Pages(time.monotonic)
        self.measuring = Measuring()
        self.gatehouse = Gatehouse(
            access=admitting.access,
            governing=deciding.governing,
            rates=admitting.rates,
            judging=self.judging,
            measuring=self.measuring,
            pages=self.pages,
            noticed=self.noticed,
            short_of_scope=admitting.short_of_scope,
            is_attended=deciding.is_attended,
            log=ground.note,
            clock=clock,
        )
        self.gatehouse.renew(ground.config)
        self.spans = open_spans(ground.config.hub.tracing)
        """Spans of calls, where the operator wants them."""
        self.recording = self._recording(strict=ground.config.hub.audit == "strict")
        showing.govern(self.recording)
        self.tasks = Tracker(
            Ledger(self._most_tasks),
            upstreams,
            lambda: ground.recorder,
            lambda: int(ground.config.hub.limits.task_s * 1000),
            clock,
        )
        self.hub = Hub(
            doors=admitting.doors,
            catalog=showing.catalog,
            shelves=showing.shelves,
            secured=showing.secured,
            kernel=showing.kernel,
            access=admitting.access,
            access_desk=admitting.access_desk,
            upstreams=upstreams,
            notices=showing.notices,
            audience=admitting.audience,
            make_pipeline=self._pipeline,
            states=states,
            recording=self.recording,
            kept=self.pages,
            parking=parking,
            tracker=self.tasks,
            finish_of=self.gatehouse.finish_of,
            limits=limits,
            info=msgspec.json.encode({"name": "interlock", "title": "Interlock", "version": VERSION}),
            room=_room(ground.config),
            risk_of=deciding.governing.risk_of,
            clock=clock,
        )
        self.service: Service = self._traced(self.hub)
        """What transports hand requests to: the hub, or where calls are traced what stands before it."""

    def renew(self, config: Config) -> None:
        """Judge and record by this configuration from now on."""
        self._states.life_s = config.hub.limits.parked_s
        self.hub.sending.room = _room(config)
        self.recording.strict = config.hub.audit == "strict"

    async def close(self) -> None:
        """Nothing is judged or measured any more."""
        self.judging.close()
        await self.measuring.close()

    def _recording(self, *, strict: bool) -> Recording:
        if self.spans is None:
            return Recording(strict=strict)
        from interlock.hub.spans.traced import TracedRecording

        return TracedRecording(self.spans, strict=strict)

    def _traced(self, hub: Hub) -> Service:
        if self.spans is None:
            return hub
        from interlock.hub.spans.traced import TracedService

        return TracedService(hub, self.spans)

    def _pipeline(self, commit: Commit, dispatch: Dispatch, release: Release) -> Pipeline:
        refused, would_refuse = self.recording.refused, self.noticed.call
        return Pipeline(
            lambda: self.gatehouse.plans,
            self._ground.epoch,
            commit,
            dispatch,
            refused,
            would_refuse,
            release=release,
            desk=self._deciding.desk,
        )

    def _most_tasks(self) -> tuple[int, int]:
        limits = self._ground.config.hub.limits
        return limits.tasks, limits.tasks_per_agent


def _room(config: Config) -> Room:
    limits = config.hub.limits
    return Room(limits.pending, limits.pending_per_server, limits.pending_per_agent)
