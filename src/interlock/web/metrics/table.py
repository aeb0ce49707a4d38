"""Every metric there is, with its labels and meaning: the page of documentation is made from this table.

Labels are bounded: servers of the configuration, states, gates and rules. No principal, tool or argument is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec


class Metric(msgspec.Struct, frozen=True):
    """One row."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()


_ROWS: Final = (
    Metric("interlock_info", "gauge", "1, with the version that runs", ("version",)),
    Metric(
        "interlock_calls_total",
        "counter",
        "Calls that were to be sent, by how they ended: `ok`, `tool_error` (the tool says that it failed), `error` "
        "(the server answered with an error), `timeout`, `lost`, `cancelled`, `not_sent`, `unknown`",
        ("server", "kind", "outcome"),
    ),
    Metric(
        "interlock_call_duration_seconds",
        "histogram",
        "How long they took, from the intent to the outcome",
        ("server",),
    ),
    Metric(
        "interlock_refusals_total",
        "counter",
        "Calls that were refused, by the gate and the rule that decided; beyond 256 of these, `other`",
        ("gate", "rule"),
    ),
    Metric(
        "interlock_would_refuse_total",
        "counter",
        "Calls that went out although a stricter mode would have refused them",
        ("server", "rule"),
    ),
    Metric("interlock_flagged_total", "counter", "Results in which something was flagged", ("server", "rule")),
    Metric(
        "interlock_loop_stall_seconds",
        "gauge",
        "How long the event loop kept everybody waiting at most, in the last minute",
    ),
    Metric("interlock_loop_stalls_total", "counter", "How often it was seen to be more than 5 ms late"),
    Metric("interlock_large_message_bytes", "gauge", "Bytes of large messages that wait to be read, or are being read"),
    Metric("interlock_calls_open", "gauge", "Calls under way", ("server",)),
    Metric("interlock_calls_held", "gauge", "Calls that wait for a check or an answer before they are sent"),
    Metric("interlock_calls_parked", "gauge", "Calls that wait for their client to come back with an answer"),
    Metric("interlock_decisions_open", "gauge", "Questions that nobody has answered yet"),
    Metric("interlock_decisions_untold", "gauge", "Open questions that wait to be told to the webhook and the desktop"),
    Metric(
        "interlock_server_state", "gauge", "1 for the state that a server is in, 0 for the others", ("server", "state")
    ),
    Metric("interlock_server_restarts_total", "counter", "How often a server was started again", ("server",)),
    Metric("interlock_server_tools", "gauge", "Tools that a server offers", ("server",)),
    Metric("interlock_server_quarantined", "gauge", "Definitions of a server that are in quarantine", ("server",)),
    Metric("interlock_sessions_open", "gauge", "Sessions of clients, by transport: `http` or `sse`", ("transport",)),
    Metric("interlock_connections_open", "gauge", "HTTP connections from clients"),
    Metric("interlock_streams_open", "gauge", "Event streams to clients"),
    Metric("interlock_body_bytes", "gauge", "Bytes of requests that are still coming in"),
    Metric(
        "interlock_requests_refused_total", "counter", "HTTP requests that were refused before anyone looked at them"
    ),
    Metric("interlock_streams_overrun_total", "counter", "Streams closed because their clients did not read them"),
    Metric(
        "interlock_connections_timed_out_total", "counter", "Connections closed because their clients took too long"
    ),
    Metric("interlock_record_entries_total", "counter", "Entries of the audit record that were committed"),
    Metric("interlock_record_waiting", "gauge", "Entries that wait to be committed"),
    Metric("interlock_record_lag_seconds", "gauge", "How long the oldest of them has waited"),
    Metric("interlock_record_failing", "gauge", "1 while entries cannot be written, and so no call is let through"),
    Metric(
        "interlock_store_behind_seconds",
        "gauge",
        "How long ago changes by other hubs of the same store were looked for",
    ),
)

METRICS: Final[Mapping[str, Metric]] = {row.name: row for row in _ROWS}

PROCESS: Final[Mapping[str, str]] = {
    "process_resident_memory_bytes": "Memory that the hub has in RAM",
    "process_virtual_memory_bytes": "Memory that it has mapped",
    "process_cpu_seconds_total": "Processor time that it took",
    "process_start_time_seconds": "When it was started, in seconds since 1970",
    "process_open_fds": "Files and connections that it has open",
    "process_max_fds": "How many it may have open",
}
"""Of the process, where the system tells (Linux)."""
