"""Reads the values of all metrics on the loop, at most a few thousand. Rendering happens elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from interlock.hub.app import HubApp
from interlock.hub.audit.counts import Snapshot
from interlock.hub.upstreams.states import ServerState
from interlock.hub.upstreams.upstream import CONDITIONS
from interlock.process.loop_watch import LoopWatch
from interlock.process.turns import in_turns
from interlock.rooms.gateway import Gateway
from interlock.transports.http.server.endpoint import McpEndpoint
from interlock.transports.http.server.listener import HttpListener
from interlock.transports.large_reading import LargeReading
from interlock.version import VERSION

if TYPE_CHECKING:
    from interlock.rooms.room import Room

Values = Iterable[tuple[tuple[str, ...], float]]
"""The values of a metric, each with its labels in the order of the table."""


class GatheredMetrics(msgspec.Struct, frozen=True):
    counts: Snapshot
    values: Mapping[str, Values]


async def gather(hub_app: HubApp, listener: HttpListener | None, rooms: Gateway | None = None) -> GatheredMetrics:
    counts = Snapshot.of(hub_app.counts)
    values = {**_of_calls(hub_app, counts), **await _of_servers(hub_app), **_of_audit_log(hub_app, counts)}
    values["interlock_info"] = [((VERSION,), 1)]
    values |= _of_loop()
    if listener is not None:
        values |= _of_http(listener)
    values |= _of_rooms(() if rooms is None else rooms.rooms)
    return GatheredMetrics(counts, values)


def _of_calls(hub_app: HubApp, counts: Snapshot) -> dict[str, Values]:
    return {
        "interlock_calls_total": counts.calls.items(),
        "interlock_refusals_total": counts.refusals.items(),
        "interlock_would_refuse_total": dict(hub_app.findings.would_refuse).items(),
        "interlock_flagged_total": dict(hub_app.findings.flagged).items(),
        "interlock_calls_open": [((upstream.id,), upstream.open_calls) for upstream in hub_app.upstreams],
        "interlock_calls_held": _one(hub_app.hub.pipeline.waiting),
        "interlock_checks_open": _one(sum(hub_app.judging.open_checks.values())),
        "interlock_result_bytes": _one(sum(hub_app.judging.result_bytes.values())),
        "interlock_calls_parked": _one(len(hub_app.parking)),
        "interlock_calls_to_repeat": _one(hub_app.hub.pipeline.dispatcher.recovery.waiting),
        "interlock_decisions_open": _one(hub_app.inbox.open_count),
        "interlock_decisions_untold": _one(hub_app.notifiers.waiting),
    }


async def _of_servers(hub_app: HubApp) -> dict[str, Values]:
    states: list[tuple[tuple[str, ...], float]] = []
    health: list[tuple[tuple[str, ...], float]] = []
    restarts: list[tuple[tuple[str, ...], float]] = []
    tools: list[tuple[tuple[str, ...], float]] = []
    quarantined: list[tuple[tuple[str, ...], float]] = []
    async for upstream in in_turns(list(hub_app.upstreams)):
        id_, now = upstream.id, upstream.state
        states += [((id_, word), float(now is state)) for state, word in _STATES]
        condition = upstream.condition
        health += [((id_, word), float(word == condition)) for word in CONDITIONS]
        restarts.append(((id_,), upstream.restarts.total))
        offer = hub_app.catalog.offer(id_)
        tools.append(((id_,), 0 if offer is None else len(offer.tools)))
        quarantined.append(((id_,), 0 if offer is None else len(offer.quarantined)))
    return {
        "interlock_server_state": states,
        "interlock_server_health": health,
        "interlock_server_restarts_total": restarts,
        "interlock_server_tools": tools,
        "interlock_server_quarantined": quarantined,
    }


def _of_audit_log(hub_app: HubApp, counts: Snapshot) -> dict[str, Values]:
    recorder = hub_app.recorder
    return {
        "interlock_record_entries_total": _one(counts.entries),
        "interlock_record_waiting": _one(recorder.waiting),
        "interlock_record_lag_seconds": _one(recorder.lag_s),
        "interlock_record_failing": _one(float(recorder.write_error is not None)),
        "interlock_record_subscribers": _one(len(hub_app.audit_subscribers)),
        "interlock_store_behind_seconds": _one(hub_app.store.behind_s()),
    }


def _of_loop() -> dict[str, Values]:
    watch = LoopWatch.here()
    return {
        "interlock_loop_stall_seconds": _one(watch.longest_s),
        "interlock_loop_stalls_total": _one(watch.stalls),
        "interlock_large_message_bytes": _one(LargeReading.here().buffered_bytes),
    }


def _of_http(listener: HttpListener) -> dict[str, Values]:
    values: dict[str, Values] = {
        "interlock_connections_open": _one(len(listener.connections)),
        "interlock_streams_open": _one(len(listener.streams)),
        "interlock_body_bytes": _one(listener.bodies.bytes),
        "interlock_requests_refused_total": _one(listener.refused),
        "interlock_streams_overrun_total": _one(listener.overrun),
        "interlock_connections_timed_out_total": _one(listener.timed_out),
        "interlock_unread_bytes": _one(listener.unread.bytes),
        "interlock_connections_unread_total": _one(listener.unread.closed),
    }
    if isinstance(listener.endpoint, McpEndpoint):
        sessions = [(("http",), len(listener.endpoint.sessions)), (("sse",), len(listener.endpoint.legacy_sse))]
        values["interlock_sessions_open"] = sessions
    return values


def _of_rooms(topics: Iterable[Room]) -> dict[str, Values]:
    rooms = list(topics)
    return {
        "interlock_room_participants": [((room.name,), len(room.members)) for room in rooms],
        "interlock_room_proposals_open": [((room.name,), room.open_proposals) for room in rooms],
        "interlock_room_joins_total": [((room.name,), room.counts.joined) for room in rooms],
        "interlock_room_envelopes_total": [((room.name,), room.counts.passed) for room in rooms],
        "interlock_room_deliveries_total": [((room.name,), room.delivered) for room in rooms],
        "interlock_room_dropped_total": [((room.name,), room.counts.dropped) for room in rooms],
        "interlock_room_refused_total": [
            ((room.name, reason), count) for room in rooms for reason, count in room.counts.refused.items()
        ],
    }


_STATES: Final = [(state, state.value) for state in ServerState]


def _one(value: float) -> Values:
    return (((), value),)
