"""MGP's error table row by row, the recovery fields in and out, and when something may be tried again."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.protocols.mgp.errors import BY_CODE, RecoveryFields, as_fault, read_recovery, translated
from interlock.protocols.mgp.recovery import (
    FIRST_PAUSE_MS,
    JITTER,
    MAX_PAUSE_MS,
    MAX_RETRIES_PER_CALL,
    USUAL_RETRIES,
    most_retries,
    pause_s,
)
from interlock.wire.errors import MAX_RETRIES, ErrorDialect, ErrorObject, Fault

ROWS = [
    (1000, "PERMISSION_DENIED", "security", False),
    (1001, "ACCESS_DENIED", "security", False),
    (1002, "AUTH_REQUIRED", "security", False),
    (1003, "AUTH_EXPIRED", "security", False),
    (1010, "VALIDATION_BLOCKED", "security", False),
    (1011, "CODE_SAFETY_VIOLATION", "security", False),
    (2000, "SERVER_NOT_READY", "lifecycle", True),
    (2001, "SERVER_DRAINING", "lifecycle", True),
    (2002, "SERVER_RESTARTING", "lifecycle", True),
    (3000, "RATE_LIMITED", "resource", True),
    (3001, "RESOURCE_EXHAUSTED", "resource", True),
    (3002, "QUOTA_EXCEEDED", "resource", False),
    (3003, "TIMEOUT", "resource", True),
    (4000, "INVALID_TOOL_ARGS", "validation", False),
    (4001, "TOOL_NOT_FOUND", "validation", False),
    (4002, "TOOL_DISABLED", "validation", False),
    (5000, "UPSTREAM_ERROR", "external", False),
    (5001, "UPSTREAM_TIMEOUT", "external", True),
    (5002, "UPSTREAM_UNAVAILABLE", "external", True),
]
RANGES = {"security": 1000, "lifecycle": 2000, "resource": 3000, "validation": 4000, "external": 5000}


def test_the_table_is_the_protocols_and_no_more() -> None:
    assert {code: kind.name for code, kind in BY_CODE.items()} == {code: name for code, name, _, _ in ROWS}


@each_case(("code", "name", "category", "retryable"), ROWS)
def test_every_row_is_told_with_its_code_category_and_way_to_recover(
    code: int, name: str, category: str, retryable: bool
) -> None:
    assert RANGES[category] <= code < RANGES[category] + 100
    details = {"limit": 10, "fallback_tool": "other"}
    error = Fault(name, "no", retry_after_ms=5000, data=details).render(ErrorDialect.MGP)
    said = json.loads(bytes(error.data))
    assert (error.code, said["name"]) == (code, name)
    recovery = said["_mgp"]
    assert recovery["category"] == category
    assert recovery["retryable"] is retryable
    assert recovery["retry_after_ms"] == 5000
    assert recovery["fallback_tool"] == "other"
    assert recovery["details"] == {"limit": 10}
    assert ("retry_strategy" in recovery) is retryable
    assert recovery.get("max_retries") == (MAX_RETRIES if retryable else None)


def test_the_protocols_own_example_is_read_as_it_stands() -> None:
    error = failure(
        3000,
        category="resource",
        retryable=True,
        retry_after_ms=5000,
        retry_strategy="exponential_backoff",
        max_retries=3,
        details={"limit": 10, "window_secs": 60, "current": 12},
    )
    assert read_recovery(error) == RecoveryFields("resource", True, 5000, "exponential_backoff", 3)


def failure(code: int, message: str = "no", **recovery: Any) -> ErrorObject:
    return ErrorObject(code, message, msgspec.Raw(json.dumps({"_mgp": recovery, "own": 1}).encode()))


@each_case(
    "data", [b"", b"null", b"5", b"{}", b'{"_mgp":5}', b'{"_mgp":{"retryable":"yes"}}', b'{"_mgp":{"max_retries":"x"}}']
)
def test_what_cannot_be_read_recovers_nothing(data: bytes) -> None:
    recovery = read_recovery(ErrorObject(3000, "no", msgspec.Raw(data)))
    assert recovery is None or not recovery.retryable


@each_case("error_dialect", [ErrorDialect.OLD_MCP, ErrorDialect.NEW_MCP])
@each_case(("code", "name"), [(code, name) for code, name, _, _ in ROWS])
def test_a_client_that_speaks_plain_mcp_gets_a_number_of_its_revision(
    code: int, name: str, error_dialect: ErrorDialect
) -> None:
    told = translated(failure(code, retryable=True, retry_after_ms=7, fallback_tool="b"), error_dialect)
    data = json.loads(bytes(told.data))
    assert told.code in (-32600, -32602, -32603)
    assert data == {
        "own": 1,
        "domain": BY_CODE[code].domain,
        "name": name,
        "retry_after_ms": 7,
        "fallback_tool": "b",
    }


def test_a_client_that_speaks_mgp_gets_all_of_it_with_the_hint_under_a_name_it_knows() -> None:
    told = translated(
        failure(3000, retryable=True, fallback_tool="b", details={"x": 1}), ErrorDialect.MGP, fallback_tool="s__b"
    )
    assert told.code == 3000
    data = json.loads(bytes(told.data))
    assert data["_mgp"] == {"category": "resource", "retryable": True, "fallback_tool": "s__b", "details": {"x": 1}}


def test_a_code_that_is_not_mgps_is_left_alone() -> None:
    error = failure(-32000, retryable=True)
    assert translated(error, ErrorDialect.NEW_MCP) is error
    assert as_fault(error) is None


@each_case(("code", "name", "category"), [row[:3] for row in ROWS])
def test_what_a_server_holds_against_the_hub_is_not_told_as_the_clients_own(
    code: int, name: str, category: str
) -> None:
    fault = as_fault(failure(code, retryable=True, retry_after_ms=1e12))
    if category == "security":
        assert fault is None
    else:
        assert fault is not None
        assert fault.name == name
        assert fault.retry_after_ms == 86_400_000


recoveries = st.builds(
    RecoveryFields,
    retryable=st.booleans(),
    retry_after_ms=st.none() | st.floats(-10, 120_000),
    retry_strategy=st.sampled_from(["immediate", "fixed_delay", "exponential_backoff", "", "magic"]),
    max_retries=st.none() | st.integers(-5, 1000),
)
chances = st.floats(0, 1)


@given(recoveries, st.integers(0, 20), chances)
def test_no_retry_comes_too_early_too_late_or_too_often(recovery: RecoveryFields, tried: int, chance: float) -> None:
    pause = pause_s(recovery, tried, chance)
    if not recovery.retryable or tried >= most_retries(recovery):
        assert pause is None
    if pause is not None:
        assert tried < MAX_RETRIES_PER_CALL
        assert recovery.max_retries is None or tried < recovery.max_retries
        assert max(0.0, recovery.retry_after_ms or 0.0) <= pause * 1000 + 1e-6
        assert pause * 1000 <= MAX_PAUSE_MS
    if recovery.retry_after_ms is not None and recovery.retry_after_ms > MAX_PAUSE_MS:
        assert pause is None, "it is not told to wait for that long and then asked earlier"


def test_the_strategies_space_retries_as_they_say() -> None:
    def pauses(strategy: str, after: float | None) -> list[float]:
        recovery = RecoveryFields(retryable=True, retry_strategy=strategy, retry_after_ms=after, max_retries=4)
        found = [pause_s(recovery, tried, 0.0) for tried in range(4)]
        return [round(pause * 1000) for pause in found if pause is not None]

    assert pauses("immediate", None) == [0, 0, 0, 0]
    assert pauses("immediate", 20) == [20, 20, 20, 20]
    assert pauses("fixed_delay", 100) == [100, 100, 100, 100]
    assert pauses("exponential_backoff", 100) == [100, 200, 400, 800]
    assert pauses("exponential_backoff", None) == [FIRST_PAUSE_MS * 2**tried for tried in range(4)]
    assert pauses("magic", 100) == pauses("exponential_backoff", 100), "what is not known is answered gently"


def test_those_who_failed_together_do_not_come_back_together() -> None:
    recovery = RecoveryFields(retryable=True, retry_after_ms=1000, retry_strategy="fixed_delay")
    early, late = pause_s(recovery, 0, 0.0), pause_s(recovery, 0, 1.0)
    assert (early, late) == (1.0, 1.0 + JITTER)


def test_without_a_number_a_few_retries_are_made() -> None:
    assert most_retries(RecoveryFields(retryable=True)) == USUAL_RETRIES
