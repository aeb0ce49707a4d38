"""The table of all metrics with labels and meaning. The documentation is made from it.

Labels are bounded: configured servers, states, gates and rules. No principal, tool or argument is a label.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec


class Metric(msgspec.Struct, frozen=True):
    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()


_ROWS: Final = (
    Metric("interlock_info", "gauge", "1, with the running version", ("version",)),
    Metric(
        "interlock_calls_total",
        "counter",
        "Calls by outcome: `ok`, `tool_error` (the tool reported an error), `error` "
        "(the server answered with an error), `timeout`, `lost`, `cancelled`, `not_sent`, `unknown`, `asked` (a "
        "request of a server left for a client in a result)",
        ("server", "kind", "outcome"),
    ),
    Metric(
        "interlock_call_duration_seconds",
        "histogram",
        "Duration of calls, from the decision to send to the outcome",
        ("server",),
    ),
    Metric(
        "interlock_refusals_total",
        "counter",
        "Refused calls, by gate and rule; more than 256 pairs are counted as `other`",
        ("gate", "rule"),
    ),
    Metric(
        "interlock_would_refuse_total",
        "counter",
        "Calls that were sent, but that a stricter mode would refuse",
        ("server", "rule"),
    ),
    Metric("interlock_flagged_total", "counter", "Results with findings of the result scan", ("server", "rule")),
    Metric("interlock_loop_stall_seconds", "gauge", "Longest stall of the event loop in the last minute"),
    Metric("interlock_loop_stalls_total", "counter", "Stalls of the event loop of more than 5 ms"),
    Metric("interlock_large_message_bytes", "gauge", "Bytes of large messages that are being read, or wait for it"),
    Metric("interlock_calls_open", "gauge", "Calls in progress", ("server",)),
    Metric("interlock_calls_held", "gauge", "Calls that wait for a check or an approval before they are sent"),
    Metric("interlock_checks_open", "gauge", "Checks of calls that run in threads, or wait for one"),
    Metric("interlock_result_bytes", "gauge", "Bytes of results that are judged in threads, or wait for one"),
    Metric("interlock_calls_parked", "gauge", "Calls that wait for an answer of their client"),
    Metric("interlock_calls_to_repeat", "gauge", "Calls that failed at their server and wait for another try"),
    Metric("interlock_decisions_open", "gauge", "Open approval requests"),
    Metric("interlock_decisions_untold", "gauge", "Approval requests not yet sent to the webhook and the desktop"),
    Metric(
        "interlock_server_state",
        "gauge",
        "1 for the current state of a server, 0 for all others",
        ("server", "state"),
    ),
    Metric(
        "interlock_server_health",
        "gauge",
        "1 for the health of a server, 0 for all others: `healthy`, `degraded`, `unhealthy`, `idle`, `starting`, "
        "`stopped`, `down`",
        ("server", "health"),
    ),
    Metric("interlock_server_restarts_total", "counter", "Restarts of a server", ("server",)),
    Metric("interlock_server_tools", "gauge", "Tools of a server", ("server",)),
    Metric("interlock_server_quarantined", "gauge", "Quarantined definitions of a server", ("server",)),
    Metric("interlock_sessions_open", "gauge", "Client sessions, by transport: `http` or `sse`", ("transport",)),
    Metric("interlock_connections_open", "gauge", "HTTP connections from clients"),
    Metric("interlock_streams_open", "gauge", "Event streams to clients"),
    Metric("interlock_body_bytes", "gauge", "Bytes of request bodies that are being received"),
    Metric("interlock_requests_refused_total", "counter", "HTTP requests refused before they were read"),
    Metric("interlock_streams_overrun_total", "counter", "Streams closed because the client did not read them"),
    Metric("interlock_connections_timed_out_total", "counter", "Connections closed because the client was too slow"),
    Metric("interlock_unread_bytes", "gauge", "Bytes of answers that clients did not read yet"),
    Metric("interlock_connections_unread_total", "counter", "Connections closed because too much was unread"),
    Metric("interlock_room_participants", "gauge", "Connected participants of a topic", ("topic",)),
    Metric("interlock_room_proposals_open", "gauge", "Open proposals of a topic", ("topic",)),
    Metric("interlock_room_joins_total", "counter", "Connections of participants to a topic", ("topic",)),
    Metric("interlock_room_envelopes_total", "counter", "Envelopes that were passed on", ("topic",)),
    Metric("interlock_room_deliveries_total", "counter", "Envelopes written to participants", ("topic",)),
    Metric(
        "interlock_room_dropped_total",
        "counter",
        "Participants that were cut off because they did not read",
        ("topic",),
    ),
    Metric("interlock_room_refused_total", "counter", "Refused envelopes, by reason of MCPx", ("topic", "reason")),
    Metric("interlock_record_entries_total", "counter", "Committed audit log entries"),
    Metric("interlock_record_waiting", "gauge", "Audit log entries that wait to be committed"),
    Metric("interlock_record_lag_seconds", "gauge", "Age of the oldest waiting audit log entry"),
    Metric(
        "interlock_record_failing",
        "gauge",
        "1 while the audit log cannot be written and calls are refused",
    ),
    Metric("interlock_record_subscribers", "gauge", "Clients that receive audit log entries as they are committed"),
    Metric(
        "interlock_store_behind_seconds",
        "gauge",
        "Time since the hub last read the changes of other hubs with the same store",
    ),
)

METRICS: Final[Mapping[str, Metric]] = {row.name: row for row in _ROWS}

PROCESS: Final[Mapping[str, str]] = {
    "process_resident_memory_bytes": "Resident memory of the hub",
    "process_virtual_memory_bytes": "Virtual memory of the hub",
    "process_cpu_seconds_total": "Processor time of the hub",
    "process_start_time_seconds": "Start time, in seconds since 1970",
    "process_open_fds": "Open files and connections",
    "process_max_fds": "Limit of open files and connections",
}
"""Metrics of the process, on Linux."""
