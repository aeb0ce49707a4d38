"""Reading envelopes: within bounds, in one way only, with a reason and a fix for each refusal."""

from __future__ import annotations

import contextlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.protocols.mcpx.envelopes import EnvelopeBounds, decode, why_bad_participant
from interlock.protocols.mcpx.errors import MEANINGS, EnvelopeRefused, RefusalReason

from .vectors import CHAT, ENVELOPE, EXAMPLES, written


def refused(data: bytes, bounds: EnvelopeBounds | None = None) -> EnvelopeRefused:
    with pytest.raises(EnvelopeRefused) as caught:
        decode(data, bounds or EnvelopeBounds())
    assert caught.value.message.strip()
    assert caught.value.fix.strip()
    return caught.value


@each_case("example", EXAMPLES.values(), ids=EXAMPLES)
def test_every_example_of_the_specification_is_read_and_kept_byte_for_byte(example: str) -> None:
    data = example.encode()
    said, read = json.loads(example), decode(data)
    assert (read.id, read.sender, read.kind.text) == (said["id"], said["from"], said["kind"])
    assert read.to == tuple(said.get("to", ()))
    assert (read.correlation_id, read.ts) == (said.get("correlation_id"), said.get("ts"))
    assert json.loads(read.payload) == said["payload"]
    assert read.raw == data


def test_the_gateways_connection_state_of_the_appendix_is_no_envelope() -> None:
    state = b'{"connectionId": "ws-123", "participantId": "agent-a", "capabilities": ["chat"]}'
    assert refused(state).reason is RefusalReason.MISSING_MEMBER


def test_a_timestamp_may_be_absent() -> None:
    assert decode(CHAT.encode()).ts is None


@each_case("ts", ["2025-08-26T14:00:00Z", "2025-08-26T14:00:00.123456+02:00", "2025-12-31T23:59:60Z"])
def test_rfc_3339_timestamps_are_taken(ts: str) -> None:
    assert decode(written(ts=ts)).ts == ts


@each_case("ts", ["", "now", "2025-08-26", "2025-13-01T00:00:00Z", "2025-08-26T14:00:00", "٢025-08-26T14:00:00Z"])
def test_other_timestamps_are_refused(ts: str) -> None:
    assert refused(written(ts=ts)).reason is RefusalReason.INVALID_TIMESTAMP


def test_version_0_is_refused_by_name() -> None:
    refusal = refused(written(protocol="mcp-x/v0"))
    assert refusal.reason is RefusalReason.UNSUPPORTED_PROTOCOL
    assert "mcp-x/v0" in refusal.message
    assert "mcpx/v0.1" in refusal.fix


@each_case("protocol", ["mcpx/v0.2", "mcpx/v0", "MCPX/v0.1", "mcpx/v0.1 ", ""])
def test_other_versions_are_refused(protocol: str) -> None:
    assert refused(written(protocol=protocol)).reason is RefusalReason.UNSUPPORTED_PROTOCOL


@each_case("name", ["protocol", "id", "from", "kind", "payload"])
def test_a_missing_member_is_named(name: str) -> None:
    said = json.loads(ENVELOPE)
    del said[name]
    refusal = refused(json.dumps(said).encode())
    assert refusal.reason is RefusalReason.MISSING_MEMBER
    assert f"`{name}`" in refusal.fix


@each_case("name", ["protocol", "id", "ts", "from", "kind", "correlation_id"])
@each_case("value", [None, 1, True, ["x"], {}])
def test_a_member_of_the_wrong_type_is_named(name: str, value: object) -> None:
    refusal = refused(json.dumps({**json.loads(ENVELOPE), name: value}).encode())
    assert refusal.reason is RefusalReason.WRONG_TYPE
    assert f"`{name}`" in refusal.message


@each_case("to", [None, "coordinator", {}, [1], ["a", None], [["a"]]])
def test_recipients_of_the_wrong_type_are_refused(to: object) -> None:
    assert refused(json.dumps({**json.loads(ENVELOPE), "to": to}).encode()).reason is RefusalReason.WRONG_TYPE


@each_case("payload", [b"null", b"[]", b'"x"', b"1"])
def test_a_payload_is_an_object(payload: bytes) -> None:
    assert (
        refused(CHAT.encode().replace(b'{"text": "Hello everyone!", "format": "plain"}', payload)).reason
        is RefusalReason.NOT_AN_OBJECT
    )


@each_case(
    "data",
    [
        b'{"id": "a", "id": "b", ',
        b'{"from": "mallory", ',
        b'{"kind": "mcp/request:tools/call", ',
        b'{"payload": {"text": "other"}, ',
        b'{"x": 1, "x": 1, ',
        b'{"fr\\u006fm": "mallory", ',
        b'{"to":[], "to": [], ',
    ],
)
def test_a_member_that_stands_twice_is_refused(data: bytes) -> None:
    twice = data + CHAT.encode().lstrip()[1:]
    assert refused(twice).reason is RefusalReason.DUPLICATE_MEMBER


@each_case("name", ["From", "KIND", "Correlation_ID", "paylo\u0061D"])
def test_a_member_in_the_wrong_case_is_refused(name: str) -> None:
    assert refused(written(**{name: "x"})).reason is RefusalReason.WRONG_CASE


def test_members_that_mcpx_does_not_name_are_kept() -> None:
    assert b'"context"' in decode(written(context={"a": 1})).raw


@each_case(
    "data", [b"", b"x", b'{"a":1', b'{"a":"\xff"}', b"\xef\xbb\xbf{}", b'{"a":NaN}', b"{}{}", b'{"a":"\\ud800"}']
)
def test_bytes_that_are_not_json_are_refused(data: bytes) -> None:
    assert refused(data).reason is RefusalReason.NOT_JSON


@each_case("data", [b"[]", b"1", b'"x"', b"null"])
def test_json_that_is_no_object_is_refused(data: bytes) -> None:
    assert refused(data).reason is RefusalReason.NOT_AN_OBJECT


def test_bytes_that_are_not_utf_8_are_refused_inside_of_the_payload() -> None:
    assert refused(CHAT.encode().replace(b"Hello", b"H\xffllo")).reason is RefusalReason.NOT_JSON


@each_case("name", ["id", "correlation_id"])
@each_case("value", ["", "x" * 129, "a\nb", "a\x00", "a\u2028b"])
def test_ids_are_bounded(name: str, value: str) -> None:
    assert refused(written(**{name: value})).reason is RefusalReason.INVALID_ID


@each_case("value", ["", "x" * 129, "a\nb"])
def test_participant_ids_are_bounded(value: str) -> None:
    assert refused(written(sender=value)).reason is RefusalReason.INVALID_PARTICIPANT
    assert refused(written(to=["bob", value])).reason is RefusalReason.INVALID_PARTICIPANT


def test_recipients_are_bounded() -> None:
    assert len(decode(written(to=["x"] * 64)).to) == 64
    assert refused(written(to=["x"] * 65)).reason is RefusalReason.TOO_MANY_RECIPIENTS


def test_size_is_bounded() -> None:
    fits = written(payload={"text": "x" * 900})
    decode(fits, EnvelopeBounds(envelope_bytes=len(fits)))
    assert refused(fits, EnvelopeBounds(envelope_bytes=len(fits) - 1)).reason is RefusalReason.TOO_LARGE
    assert refused(written(extra="x" * 40_000)).reason is RefusalReason.TOO_LARGE
    decode(written(payload={"text": "x" * 200_000}))


def test_members_are_bounded_at_every_depth_and_beside_the_payload() -> None:
    decode(written(payload={"items": [[]] * 4_900}))
    decode(written(payload={"text": ",[{" * 20_000}))
    for items in ([0] * 10_000, [[]] * 80_000, [{"a": [1]}] * 5_000):
        assert refused(written(payload={"items": items})).reason is RefusalReason.TOO_LARGE
    decode(written(**{f"x{number}": 0 for number in range(500)}))
    assert refused(written(**{f"x{number}": 0 for number in range(512)})).reason is RefusalReason.TOO_LARGE


def test_nesting_is_bounded_before_anyone_reads_the_payload() -> None:
    deep = b'{"a":' * 63 + b"[]" + b"}" * 63
    decode(CHAT.encode().replace(b'{"text": "Hello everyone!", "format": "plain"}', deep))
    deeper = b'{"a":' + deep + b"}"
    data = CHAT.encode().replace(b'{"text": "Hello everyone!", "format": "plain"}', deeper)
    assert refused(data).reason is RefusalReason.NESTED_TOO_DEEPLY
    brackets = b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    assert refused(data.replace(deeper, brackets)).reason in (RefusalReason.NESTED_TOO_DEEPLY, RefusalReason.TOO_LARGE)


def test_brackets_in_text_are_no_nesting() -> None:
    decode(written(payload={"text": '[{"\\' * 1_000}))


def test_a_refusal_names_the_envelope_it_answers_where_it_can() -> None:
    refusal = refused(written(id="env-7", protocol="mcpx/v9"))
    assert (refusal.envelope_id, refusal.attempted_kind) == ("env-7", "chat")
    assert refused(written(id="a\nb")).envelope_id is None
    assert refused(b"x").envelope_id is None


@each_case("id", ["system:gateway", "server:files", "", "x" * 129, "a\rb"])
def test_no_credential_is_mapped_to_a_reserved_or_unprintable_id(id: str) -> None:
    assert why_bad_participant(id)
    assert why_bad_participant("alice") is None


def test_every_reason_has_a_meaning() -> None:
    assert set(MEANINGS) == set(RefusalReason)


@each_case(
    ("start", "repeated", "end"),
    [
        (b'{"payload":{"a":[', b'"{",', b"1]}}"),
        (b'{"payload":{"a":[', b"[],", b"1]}}"),
        (b"{", b'"a":1,', b'"b":1}'),
        (b'{"payload":{', b'"a":1,', b'"b":1}}'),
        (b'{"to":[', b'"",', b'""]}'),
        (b'{"payload":{"a":"', b'\\"[', b'"}}'),
    ],
    ids=["strings", "brackets", "members", "payload members", "recipients", "escapes"],
)
def test_hostile_bytes_are_judged_in_time_linear_in_their_length(start: bytes, repeated: bytes, end: bytes) -> None:
    def cost(times: int) -> float:
        data = start + repeated * times + end
        found = []
        for _ in range(5):
            started = time.thread_time()
            refused(data)
            found.append(time.thread_time() - started)
        return min(found)

    assert cost(80_000) < 8 * cost(10_000) * 4, "eight times the bytes take about eight times as long, not 64 times"


@given(st.binary(max_size=200))
def test_no_bytes_make_decoding_fail_in_another_way(data: bytes) -> None:
    with contextlib.suppress(EnvelopeRefused):
        decode(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["protocol", "id", "ts", "from", "to", "kind", "correlation_id", "payload", "extra", "From"])


@given(st.lists(st.tuples(names, json_values), max_size=10))
def test_an_envelope_is_never_taken_that_another_reader_would_take_differently(pairs: list[tuple[str, object]]) -> None:
    good = [(name, value) for name, value in json.loads(CHAT).items()]
    for members in (pairs, [*good, *pairs], [*pairs, *good]):
        data = ("{" + ",".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in members) + "}").encode()
        try:
            read = decode(data)
        except EnvelopeRefused:
            continue
        assert len({name for name, _ in members}) == len(members)
        assert json.loads(data)["from"] == read.sender
        assert json.loads(data)["kind"] == read.kind.text
