"""MCPL's messages: every example of the specification reads and writes back, and a wrong shape is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cases import each_case
from interlock.protocols.mcpl.capabilities import McplDialect
from interlock.protocols.mcpl.channels import Channel, hub_channel_id, split_hub_channel_id
from interlock.protocols.mcpl.checkpoints import StateReport, read_state
from interlock.protocols.mcpl.content import Block, Content, ResourceContent, TextContent, blocks
from interlock.protocols.mcpl.decoding import LIMITS, decode
from interlock.protocols.mcpl.errors import BY_CODE, as_fault
from interlock.protocols.mcpl.events import PushEvent, expand_tags
from interlock.protocols.mcpl.feature_sets import FeatureSetsUpdate, UpdateReceipt, read_feature_sets
from interlock.protocols.mcpl.hooks import ChannelContext
from interlock.protocols.mcpl.live import AnswerParams, LiveFilter
from interlock.protocols.mcpl.manifests import ManifestChanged
from interlock.protocols.mcpl.methods import METHODS, find, read_params
from interlock.protocols.mcpl.negotiation import read_offer
from interlock.protocols.mcpl.scopes import Scope
from interlock.wire.errors import ErrorDialect, ErrorObject, Fault

EXAMPLES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "examples_0_4.json").read_text())
PUSH = {
    "featureSet": "a",
    "eventId": "e",
    "timestamp": "2026-01-23T10:30:00Z",
    "payload": {"content": [{"type": "text", "text": "hello"}]},
}


def of(*kinds: str) -> list[dict[str, Any]]:
    """The examples of these kinds."""
    found = [example for example in EXAMPLES if example["kind"] in kinds]
    assert found
    return found


def raw(value: object) -> bytes:
    return json.dumps(value).encode()


@each_case("example", of("message", "result"), ids=lambda e: f"{e['section']}-{e['method']}-{e['kind']}")
def test_every_message_of_the_specification_reads_and_writes_back_the_same(example: dict[str, Any]) -> None:
    sender = METHODS[example["method"]].sender
    notification = example.get("notification", METHODS[example["method"]].kind == "notification")
    row = find(example["method"], "host" if sender == "host" else "server", McplDialect.V0_4, notification=notification)
    if example["kind"] == "message":
        value = read_params(row, raw(example["value"]))
    else:
        assert row.result is not None
        value = decode(row.result, raw(example["value"]), "result")
    again = json.loads(msgspec.json.encode(value))
    # Members that say no more than their default are not written.
    left_out = {name: said for name, said in example["value"].items() if name not in again}
    assert {name: said for name, said in example["value"].items() if name in again} == _plain(again, example["value"])
    assert all(said in ({}, [], None, False) for said in left_out.values()), left_out


def _plain(again: dict[str, Any], original: dict[str, Any]) -> dict[str, Any]:
    """The written message, with the defaults that the original spelled out."""
    made = {}
    for name, value in again.items():
        if isinstance(value, list) and original.get(name) and isinstance(original[name][0], dict):
            made[name] = [{**was, **now} for was, now in zip(original[name], value, strict=True)]
        else:
            made[name] = value
    return made


@each_case("example", of("capabilities"), ids=lambda e: e["section"])
def test_every_advertisement_of_the_specification_is_an_offer_of_0_4(example: dict[str, Any]) -> None:
    found = read_offer(raw(example["value"]))
    assert found is not None
    assert found[0].dialect is McplDialect.V0_4
    assert not [declared for declared in found[0].feature_sets.values() if declared.problem]


@each_case("example", of("feature sets"), ids=lambda e: e["section"])
def test_every_feature_set_of_the_specification_is_sound(example: dict[str, Any]) -> None:
    declared = read_feature_sets(example["value"], McplDialect.V0_4)
    assert declared.keys() == example["value"].keys()
    assert not [found for found in declared.values() if found.problem]
    assert {found.name for found in declared.values() if found.scoped} == {
        name for name, said in example["value"].items() if said.get("scoped")
    }


def test_the_other_examples_of_the_specification_read() -> None:
    for example in of("state"):
        assert decode(StateReport, raw(example["value"])).checkpoint == example["value"]["checkpoint"]
    for example in of("content"):
        assert decode(Content, raw(example["value"]))  # type: ignore[arg-type]
    for example in of("channel"):
        assert decode(Channel, raw(example["value"])).id == "discord:#general"
    for example in of("channel context"):
        assert decode(ChannelContext, raw(example["value"])).candidates[0] == "ui"
    scopes = [example["value"]["scope"] for example in of("call") if "scope" in example["value"]]
    assert [decode(Scope, raw(scope)).label for scope in scopes] == ["/project/src/main.ts"]
    for example in of("error"):
        fault = as_fault(ErrorObject(example["value"]["code"], example["value"]["message"]))
        assert fault is not None
        assert fault.render(ErrorDialect.MCPL).code == example["value"]["code"]


def test_the_codes_are_those_of_the_appendix() -> None:
    assert {code: kind.name for code, kind in BY_CODE.items()} == {
        -32001: "FEATURE_SET_DISABLED",
        -32002: "CAPABILITY_DENIED",
        -32003: "UNKNOWN_FEATURE_SET",
        -32005: "CHECKPOINT_NOT_FOUND",
        -32017: "CHANNEL_NOT_PERMITTED",
        -32023: "UNKNOWN_CHANNEL",
        -32024: "CHANNEL_OPEN_FAILED",
    }


def test_a_plain_peer_of_the_new_revision_sees_no_reserved_number() -> None:
    for kind in BY_CODE.values():
        assert not -32019 <= kind.code(ErrorDialect.NEW_MCP) <= -32000
        assert kind.code(ErrorDialect.NEW_MCP) not in (-32023, -32024)


@each_case("missing", ["featureSet", "eventId", "timestamp", "payload"])
def test_a_push_without_a_required_member_is_refused_by_its_name(missing: str) -> None:
    with pytest.raises(Fault) as refused:
        decode(PushEvent, raw({name: said for name, said in PUSH.items() if name != missing}))
    assert refused.value.name == "INVALID_PARAMS"
    assert refused.value.data["field"] == missing
    assert missing in refused.value.message


def test_a_member_deep_inside_is_named_by_its_path() -> None:
    with pytest.raises(Fault) as refused:
        decode(PushEvent, raw({**PUSH, "payload": {}}))
    assert refused.value.data["field"] == "payload.content"


@each_case(
    ("method", "sender", "params"),
    [
        ("push/event", "server", {**PUSH, "timestamp": "yesterday"}),
        ("push/event", "server", {**PUSH, "eventId": ""}),
        ("push/event", "server", {**PUSH, "eventId": "x" * 257}),
        ("push/event", "server", {**PUSH, "featureSet": 5}),
        ("push/event", "server", {**PUSH, "origin": "gitlab"}),
        ("push/event", "server", {**PUSH, "tags": ["mention"]}),
        ("push/event", "server", {**PUSH, "payload": {"content": [{"type": "video", "uri": "x"}]}}),
        ("push/event", "server", {**PUSH, "payload": {"content": [{"text": "no type"}]}}),
        ("push/event", "server", [PUSH]),
        ("inference/request", "server", {"featureSet": "a", "messages": []}),
        ("inference/request", "server", {"featureSet": "a", "messages": [{"role": "tool", "content": "x"}]}),
        ("channels/incoming", "server", {"messages": []}),
        (
            "channels/register",
            "server",
            {"channels": [{"id": "a", "type": "b", "label": "c", "direction": "sideways"}]},
        ),
        ("channels/publish", "host", {"conversationId": "c", "content": []}),
        ("context/beforeInference", "host", {"inferenceId": "i", "conversationId": "c", "turnIndex": -1}),
        ("state/rollback", "host", {"featureSet": "a"}),
        ("scope/elevate", "server", {"featureSet": "a", "scope": {"payload": {}}}),
    ],
)
def test_a_wrong_shape_is_refused(method: str, sender: Any, params: object) -> None:
    row = find(method, sender, McplDialect.V0_4, notification=False)
    with pytest.raises(Fault) as refused:
        read_params(row, raw(params))
    assert refused.value.name == "INVALID_PARAMS"
    assert refused.value.render(ErrorDialect.MCPL).code == -32602


def test_unknown_members_are_ignored_at_every_depth() -> None:
    event = decode(
        PushEvent,
        raw({**PUSH, "priority": 9, "payload": {"content": [{"type": "text", "text": "a", "x": {}}], "y": 1}}),
    )
    assert event.payload.content == (TextContent("a"),)


@each_case(
    "payload",
    [
        b'{"featureSet":"a","featureSet":"b"}',
        b"[" * 100 + b"]" * 100,
        b'{"a":' * 40 + b"1" + b"}" * 40,
        b'{"featureSet":"a","origin":{"x":[' + b"0," * 20_000 + b"0]}}",
        b'{"featureSet":"' + b"x" * LIMITS.message_bytes + b'"}',
        b"{",
        b'{"featureSet":"\xff"}',
        b"",
    ],
)
def test_an_ambiguous_or_oversized_payload_is_refused_before_it_is_decoded(payload: bytes) -> None:
    with pytest.raises(Fault):
        decode(PushEvent, payload)


@each_case(
    ("block", "reads"),
    [
        ({"type": "resource", "uri": "memory://1"}, True),
        ({"type": "resource", "resource": {"uri": "memory://1", "text": "x"}}, True),
        ({"type": "resource", "resource": {"uri": "memory://1", "blob": "eA=="}}, True),
        ({"type": "resource"}, False),
        ({"type": "resource", "uri": "a", "resource": {"uri": "a", "text": "x"}}, False),
        ({"type": "resource", "resource": {"uri": "a"}}, False),
        ({"type": "resource_link", "uri": "a", "name": "b"}, True),
        ({"type": "image", "data": "eA==", "mimeType": "image/png"}, True),
        ({"type": "image", "uri": "https://example.com/a.png"}, True),
        ({"type": "image", "data": "eA=="}, False),
        ({"type": "image", "data": "eA==", "mimeType": "image/png", "uri": "a"}, False),
        ({"type": "audio", "uri": "a"}, True),
        ({"type": "audio"}, False),
        ({"type": "text"}, False),
    ],
)
def test_content_takes_both_forms_of_a_resource_and_one_form_of_media(block: object, reads: bool) -> None:
    try:
        decode(Block, raw(block))  # type: ignore[arg-type]
    except Fault:
        assert not reads
    else:
        assert reads


def test_a_resource_has_an_address_in_either_form() -> None:
    for block in (
        {"type": "resource", "uri": "m://1"},
        {"type": "resource", "resource": {"uri": "m://1", "text": "x"}},
    ):
        assert decode(ResourceContent, raw(block)).address == "m://1"


def test_a_plain_string_is_one_text_block() -> None:
    assert blocks("hello") == (TextContent("hello"),)


@each_case(
    ("method", "sender", "dialect", "notification", "error"),
    [
        ("featureSets/changed", "server", McplDialect.V0_5, True, "METHOD_NOT_FOUND"),
        ("scope/elevate", "server", McplDialect.V0_5, False, "METHOD_NOT_FOUND"),
        ("context/afterInference", "host", McplDialect.V0_5, False, "METHOD_NOT_FOUND"),
        ("inference/lifecycle", "host", McplDialect.V0_4, True, "METHOD_NOT_FOUND"),
        ("mcpl/manifest", "host", McplDialect.V0_4, False, "METHOD_NOT_FOUND"),
        ("channels/publish", "server", McplDialect.V0_4, False, "METHOD_NOT_FOUND"),
        ("context/beforeInference", "server", McplDialect.V0_5, False, "METHOD_NOT_FOUND"),
        ("push/nothing", "server", McplDialect.V0_4, False, "METHOD_NOT_FOUND"),
        ("push/event", "server", McplDialect.V0_4, True, "INVALID_REQUEST"),
        ("inference/chunk", "host", McplDialect.V0_4, False, "INVALID_REQUEST"),
    ],
)
def test_a_method_is_known_to_its_side_and_dialect_alone(
    method: str, sender: Any, dialect: McplDialect, notification: bool, error: str
) -> None:
    with pytest.raises(Fault) as refused:
        find(method, sender, dialect, notification=notification)
    assert refused.value.name == error


def test_a_path_that_is_both_granted_and_denied_makes_the_update_malformed() -> None:
    with pytest.raises(Fault):
        decode(FeatureSetsUpdate, raw({"effectiveCapabilities": ["tools"], "deniedCapabilities": ["tools"]}))


def test_a_refusal_names_its_fallback() -> None:
    with pytest.raises(Fault):
        decode(UpdateReceipt, raw({"accepted": False}))
    assert decode(UpdateReceipt, raw({"accepted": False, "fallback": "mcp-only"})).fallback == "mcp-only"


def test_a_manifest_notice_carries_no_payload() -> None:
    revision = "sha256:" + "A" * 43
    assert decode(ManifestChanged, raw({"revision": revision, "domains": ["capabilities"]})).domains
    for extra in ({"added": {}}, {"domains": []}, {"domains": ["tools"]}, {"revision": "v2"}):
        with pytest.raises(Fault):
            decode(ManifestChanged, raw({"revision": revision, "domains": ["capabilities"], **extra}))


def test_an_answer_has_a_result_or_an_error_and_not_both() -> None:
    assert decode(AnswerParams, raw({"id": "a", "result": {"accepted": True}})).result == {"accepted": True}
    assert decode(AnswerParams, raw({"id": 1, "error": {"code": -32001, "message": "no"}})).error is not None
    for wrong in ({"id": 1}, {"id": 1, "result": {}, "error": {"code": 1, "message": ""}}, {"result": {}}):
        with pytest.raises(Fault):
            decode(AnswerParams, raw(wrong))


def test_a_stream_gets_the_messages_its_filter_names() -> None:
    assert LiveFilter().wants("push/event", "a.b")
    chosen = decode(LiveFilter, raw({"featureSets": ["memory.*"], "methods": ["push/event"]}))
    assert chosen.wants("push/event", "memory.a.b")
    assert not chosen.wants("push/event", "gitlab.a")
    assert not chosen.wants("inference/request", "memory.a")


def test_a_state_is_read_from_a_result_and_nothing_else_of_it() -> None:
    report = read_state(raw({"content": [{"type": "whatever"}], "state": {"checkpoint": "a", "parent": None}}))
    assert report is not None
    assert report.checkpoint == "a"
    assert read_state(raw({"content": []})) is None
    for wrong in ({"checkpoint": "a", "patch": []}, {"checkpoint": "a", "parent": "a"}, {"parent": "a"}):
        with pytest.raises(Fault):
            read_state(raw({"state": wrong}))


def test_tags_imply_what_the_specification_says_and_addressed_is_not_ambient() -> None:
    assert expand_tags(["chat:dm"]) == {"chat:dm", "chat:addressed", "chat:private"}
    assert expand_tags(["chat:mention", "chat:ambient"]) == {"chat:mention", "chat:addressed"}
    assert expand_tags(["chat:ambient", "x:y"]) == {"chat:ambient", "x:y"}


def test_a_channel_id_of_the_hub_divides_at_its_first_slash() -> None:
    assert split_hub_channel_id(hub_channel_id("discord", "discord:acme/general")) == (
        "discord",
        "discord:acme/general",
    )
    for wrong in ("", "discord", "/x", "discord/"):
        with pytest.raises(ValueError):
            split_hub_channel_id(wrong)
