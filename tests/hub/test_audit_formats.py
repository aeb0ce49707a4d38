"""The pure parts of the audit record: MGP's event format, trace ids, outcomes, redaction."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.hub.audit.chain import follow, genesis, record_of, row_of
from interlock.hub.audit.mgp_format import to_mgp
from interlock.hub.audit.record import (
    CANCELLED,
    EVENTS,
    FETCHED,
    INTENDED,
    LOST,
    NOT_SENT,
    SUCCEEDED,
    TIMED_OUT,
    TOOL_FAILED,
    UNKNOWN,
    Outcome,
    Record,
    is_event,
    outcome_of,
)
from interlock.hub.audit.redaction import MAX_TEXT, redact, redact_text
from interlock.protocols.traces import (
    Traceparent,
    as_uuid,
    find_trace_id,
    new_span_id,
    new_trace_id,
    read_traceparent,
    trace_id_from,
)
from interlock.store.secret_names import is_secret, names_a_secret

TRACE = "550e8400e29b41d4a716446655440000"
AT = 1_772_193_600_000_000


def test_an_executed_tool_reads_as_in_the_documents_example() -> None:
    record = Record(
        7, AT, "TOOL_EXECUTED", "agent.cloto_default", "agent", "tool", "tool.terminal", "execute_command", TRACE,
        intent=6, outcome=SUCCEEDED, duration_us=1_200_345, risk_level="dangerous", validator_applied="sandbox",
    )  # fmt: skip
    assert to_mgp(record) == {
        "timestamp": "2026-02-27T12:00:00.000Z",
        "trace_id": "550e8400-e29b-41d4-a716-446655440000",
        "event_type": "TOOL_EXECUTED",
        "actor": {"type": "agent", "id": "agent.cloto_default"},
        "target": {"server_id": "tool.terminal", "tool_name": "execute_command"},
        "result": "SUCCESS",
        "details": {
            "risk_level": "dangerous",
            "validator_applied": "sandbox",
            "duration_ms": 1200,
            "outcome": {"transport": "answered", "protocol": "result", "tool": "ok"},
        },
    }


@each_case(
    ("event", "result"),
    [
        ("TOOL_EXECUTED", "RECORDED"),
        ("TOOL_BLOCKED", "BLOCKED"),
        ("PERMISSION_GRANTED", "RECORDED"),
        ("PERMISSION_DENIED", "RECORDED"),
        ("PERMISSION_REVOKED", "RECORDED"),
        ("ACCESS_GRANTED", "RECORDED"),
        ("ACCESS_REVOKED", "RECORDED"),
        ("SERVER_CONNECTED", "RECORDED"),
        ("SERVER_DISCONNECTED", "RECORDED"),
        ("VALIDATION_FAILED", "BLOCKED"),
        ("CODE_REJECTED", "BLOCKED"),
        ("com.example.custom_event", "RECORDED"),
        (INTENDED, "PENDING"),
    ],
)
def test_every_event_type_has_the_members_the_format_asks_for(event: str, result: str) -> None:
    assert is_event(event)
    shown = to_mgp(Record(1, AT + 1_999, event, "a", "person", "tool", "s", "t", TRACE, gate="g", rule="r", reason="w"))
    assert shown["event_type"] == event
    assert shown["timestamp"] == "2026-02-27T12:00:00.001Z"
    assert shown["result"] == result
    assert shown["details"] == {"gate": "g", "rule": "r", "reason": "w"}


def test_there_are_eleven_standard_event_types() -> None:
    assert len(EVENTS) == 11


@each_case("name", ["", "tool_executed", "CUSTOM", "com", ".x", "com.", "com..x", "com.a b", "c." + "x" * 200])
def test_what_is_neither_standard_nor_reverse_domain_is_no_event_type(name: str) -> None:
    assert not is_event(name)


@each_case(
    ("kind", "target"),
    [
        ("prompt", {"server_id": "s", "prompt_name": "n"}),
        ("resource", {"server_id": "s", "resource_uri": "n"}),
        ("completion", {"server_id": "s", "name": "n"}),
    ],
)
def test_a_target_that_is_not_a_tool_is_named_as_what_it_is(kind: str, target: dict[str, str]) -> None:
    assert to_mgp(Record(1, AT, "com.example.x", kind=kind, server="s", name="n"))["target"] == target


def test_what_the_hub_itself_did_has_the_kernel_as_actor_and_no_target() -> None:
    shown = to_mgp(Record(1, AT, "com.example.x", claimed_by="files"))
    assert shown["actor"] == {"type": "kernel", "id": "interlock"}
    assert "target" not in shown
    assert shown["details"] == {"claimed_by": "files"}


@each_case(
    ("outcome", "result"),
    [
        (SUCCEEDED, "SUCCESS"),
        (FETCHED, "SUCCESS"),
        (TOOL_FAILED, "FAILURE"),
        (Outcome("answered", "error", code=-32603), "FAILURE"),
        (TIMED_OUT, "FAILURE"),
        (LOST, "FAILURE"),
        (CANCELLED, "FAILURE"),
        (NOT_SENT, "FAILURE"),
        (UNKNOWN, "UNKNOWN"),
    ],
)
def test_transport_protocol_and_tool_are_kept_apart_and_summed_up_in_a_word(outcome: Outcome, result: str) -> None:
    record = Record(1, AT, "TOOL_EXECUTED", outcome=outcome)
    assert record.result == result
    assert record_of(row_of("c", record, genesis("c")).body) == record


@each_case(
    ("result", "outcome"),
    [
        (b'{"content":[]}', SUCCEEDED),
        (b'{"content":[],"isError":false}', SUCCEEDED),
        (b'{"isError":true,"content":[]}', TOOL_FAILED),
        (b'{"content":[{"type":"text","text":"\\"isError\\":true"}]}', SUCCEEDED),
        (b'{"isError":tru', Outcome("answered", "error")),
    ],
)
def test_a_tools_own_failure_is_read_from_its_result(result: bytes, outcome: Outcome) -> None:
    assert outcome_of(result) == outcome


def test_the_hash_covers_the_record_and_all_before_it() -> None:
    one = row_of("c", Record(1, AT, INTENDED), genesis("c"))
    assert one.hash == follow(genesis("c"), one.body.encode())
    assert row_of("d", Record(1, AT, INTENDED), genesis("d")).hash != one.hash


PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_traceparent_is_read_and_written_the_same() -> None:
    read = read_traceparent(PARENT)
    assert read == Traceparent("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", sampled=True)
    assert str(read) == PARENT


@each_case(
    "text",
    [
        "",
        "ff" + PARENT[2:],
        PARENT + "-more",
        PARENT.upper(),
        PARENT[:-1],
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-{'a' * 32}-{'0' * 16}-01",
        PARENT + "\n",
        "0" * 10_000,
    ],
)
def test_what_the_standard_says_to_ignore_is_ignored(text: str) -> None:
    assert read_traceparent(text) is None


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    assert read_traceparent("01" + PARENT[2:] + "-more") == read_traceparent(PARENT)


@given(st.text(max_size=200))
def test_any_text_means_one_trace_id(text: str) -> None:
    trace = trace_id_from(text)
    assert trace == trace_id_from(text)
    assert (len(trace), trace_id_from(as_uuid(trace))) == (32 if text else 0, trace)


def test_a_uuid_means_its_digits() -> None:
    assert trace_id_from("550E8400-E29B-41D4-A716-446655440000") == TRACE
    assert as_uuid(TRACE) == "550e8400-e29b-41d4-a716-446655440000"
    assert trace_id_from("0" * 32) != "0" * 32


def test_new_ids_can_be_sent_on() -> None:
    made = Traceparent(new_trace_id(), new_span_id())
    assert read_traceparent(str(made)) == made


@each_case(
    ("meta", "params", "top", "found"),
    [
        ({"traceparent": PARENT, "trace_id": TRACE}, {}, {}, PARENT[3:35]),
        ({"traceparent": "rubbish", "trace_id": TRACE}, {}, {}, TRACE),
        ({}, {"trace_id": TRACE}, {"trace_id": "other"}, TRACE),
        ({}, {}, {"trace_id": TRACE}, TRACE),
        ({"trace_id": 3}, {"trace_id": ""}, {"trace_id": "x" * 1000}, ""),
    ],
)
def test_a_trace_id_is_looked_for_in_the_decided_order(
    meta: dict[str, object], params: dict[str, object], top: dict[str, object], found: str
) -> None:
    assert find_trace_id(meta, params, top) == found


@each_case(
    "name",
    ["password", "PASSWORD", "db_password", "api_key", "apiKey", "API-KEY", "clientSecret", "X-Auth-Token", "token",
     "access_token", "authorization", "Cookie", "private_key", "connectionString"],
)  # fmt: skip
def test_a_name_that_stands_before_a_secret_is_known(name: str) -> None:
    assert names_a_secret(name)


@each_case(
    "name",
    ["key", "name", "key_hash", "token_count", "max_tokens_limit", "author", "passenger", "tokenizer", "secretary",
     "path", "session_id"],
)  # fmt: skip
def test_a_plain_name_is_not_taken_for_a_secrets(name: str) -> None:
    assert not names_a_secret(name)


COUNTS = ("maxTokens", "max_tokens", "inputTokens", "cache_read_input_tokens", "total-tokens", "usage.output_tokens")


def test_a_number_of_tokens_is_no_secret_and_everything_else_under_such_a_name_is() -> None:
    for name in COUNTS:
        assert not is_secret(name, 100), name
        assert is_secret(name, "s3cr3t"), name
        assert is_secret(name, ["s3cr3t"]), name
    for name in ("token", "tokens", "authTokens", "access_tokens", "reset_token", "pin", "otp", "maxPassword"):
        assert is_secret(name, 123456), name
    assert redact({"maxTokens": 100, "pin": 1234}) == {"maxTokens": 100, "pin": "[redacted]"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=10), inner, max_size=5),
    max_leaves=20,
)


@given(JSON)
def test_what_holds_no_secret_is_left_as_it_is(value: object) -> None:
    def clean(part: Any) -> bool:
        if isinstance(part, dict):
            return all(not names_a_secret(key) and clean(member) for key, member in part.items())
        return all(map(clean, part)) if isinstance(part, list) else True

    if clean(value):
        assert redact(value) == value


@given(JSON, st.sampled_from(["password", "apiKey", "client_secret"]))
def test_a_secret_is_gone_however_deep_it_lies(around: object, name: str) -> None:
    value = {
        "outer": [around, {"inner": {name: "hunter2hunter2", "other": {"Authorization": ["Bearer hunter2hunter2"]}}}]
    }
    assert b"hunter2hunter2" not in msgspec.json.encode(redact(value))


def test_what_is_long_wide_or_deep_is_cut_and_says_so() -> None:
    deep: dict[str, object] = {}
    for _ in range(50):
        deep = {"d": deep}
    shown = msgspec.json.encode(
        redact({"long": "x" * 10_000, "wide": list(range(1000)), "deep": deep, "odd": object()})
    )
    assert len(shown) < 2 * MAX_TEXT
    for sign in (b"[cut: 10000 characters]", b"[cut: 900 more]", b"[cut: too deep]", b"[object]"):
        assert sign in shown


def test_a_texts_own_redactor_is_asked() -> None:
    assert redact_text("key hunter2", lambda text: text.replace("hunter2", "[secret]")) == "key [secret]"
