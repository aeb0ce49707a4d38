"""The strict check: a kind says what its payload is, or the envelope is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cases import each_case
from interlock.protocols.mcpx.envelopes import decode
from interlock.protocols.mcpx.errors import EnvelopeRefused, RefusalReason
from interlock.protocols.mcpx.payloads import TARGET_MEMBERS, check_payload
from interlock.protocols.mcpx.responses import OpenRequest, check_response, open_request

from .vectors import EXAMPLES, FULFILMENT_RESPONSE, REQUEST, RESPONSE, envelope


def refused(kind: str, payload: object, **members: Any) -> EnvelopeRefused:
    with pytest.raises(EnvelopeRefused) as caught:
        check_payload(envelope(kind, payload=payload, **members))
    assert caught.value.fix.strip()
    assert caught.value.attempted_kind == kind
    return caught.value


def call(method: str, params: object, **members: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params, **members}


COMPLETE = [name for name in EXAMPLES if name != "3 Message Envelope"]


@each_case("name", COMPLETE)
def test_every_example_with_a_payload_passes(name: str) -> None:
    check_payload(decode(EXAMPLES[name].encode()))


def test_the_example_whose_payload_is_left_out_does_not_pass() -> None:
    with pytest.raises(EnvelopeRefused) as caught:
        check_payload(decode(EXAMPLES["3 Message Envelope"].encode()))
    assert caught.value.reason is RefusalReason.INVALID_PAYLOAD


def test_the_specifications_spoof_is_refused() -> None:
    payload = call("tools/call", {"name": "dangerous_tool"})
    assert refused("mcp/request:tools/call:safe_tool", payload).reason is RefusalReason.CONTEXT_MISMATCH
    assert refused("mcp/request:tools/list", payload).reason is RefusalReason.METHOD_MISMATCH
    assert refused("mcp/proposal:tools/call:safe_tool", payload).reason is RefusalReason.CONTEXT_MISMATCH


VALUES: dict[str, tuple[object, str]] = {
    "name": ("x", "x"),
    "uri": ("file:///a:b", "file:///a:b"),
    "taskId": ("t-1", "t-1"),
    "level": ("debug", "debug"),
    "requestId": (7, "7"),
    "progressToken": ("p", "p"),
    "elicitationId": ("e", "e"),
    "ref": ({"type": "ref/prompt", "name": "p"}, "p"),
}


@each_case(("method", "member"), TARGET_MEMBERS.items())
def test_context_equals_what_the_method_operates_on(method: str, member: str) -> None:
    value, context = VALUES[member]
    payload = call(method, {member: value})
    if method.startswith("notifications/"):
        del payload["id"]
    assert check_payload(envelope(f"mcp/request:{method}:{context}", payload=payload)).target == context
    assert check_payload(envelope(f"mcp/request:{method}", payload=payload)).target == context
    assert refused(f"mcp/request:{method}:{context}x", payload).reason is RefusalReason.CONTEXT_MISMATCH
    assert refused(f"mcp/request:{method}", {**payload, "params": {}}).reason in (
        RefusalReason.INVALID_PAYLOAD,
        RefusalReason.NOT_AN_OBJECT,
    )


def test_a_completion_is_for_a_prompt_or_a_resource() -> None:
    resource = call("completion/complete", {"ref": {"type": "ref/resource", "uri": "file:///{x}"}})
    assert check_payload(envelope("mcp/request:completion/complete:file:///{x}", payload=resource)).target
    both = call("completion/complete", {"ref": {"type": "ref/resource", "uri": "u", "name": "n"}})
    assert refused("mcp/request:completion/complete:n", both).reason is RefusalReason.CONTEXT_MISMATCH
    other = call("completion/complete", {"ref": {"type": "ref/tool", "name": "n"}})
    assert refused("mcp/request:completion/complete:n", other).reason is RefusalReason.INVALID_PAYLOAD


@each_case("method", ["tools/list", "initialize", "sampling/createMessage", "com.example/do"])
def test_a_context_that_cannot_be_checked_is_refused(method: str) -> None:
    assert check_payload(envelope(f"mcp/request:{method}", payload=call(method, {}))).method == method
    assert refused(f"mcp/request:{method}:x", call(method, {"name": "x"})).reason is RefusalReason.UNCHECKABLE_KIND
    result = {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert refused(f"mcp/response:{method}:x", result, correlation_id="r").reason is RefusalReason.UNCHECKABLE_KIND


def test_a_kind_of_another_protocol_cannot_be_checked() -> None:
    assert refused("com.example/thing", {}).reason is RefusalReason.UNCHECKABLE_KIND


@each_case(
    "params",
    [
        '{"name": "safe", "name": "dangerous"}',
        '{"name": "dangerous", "name": "safe"}',
        '{"name": "safe", "NAME": "dangerous"}',
        '{"name": "safe", "n\\u0061me": "dangerous"}',
        '{"name": "safe", "arguments": {}, "arguments": {"a": 1}}',
    ],
)
def test_params_that_two_readers_could_take_differently_are_refused(params: str) -> None:
    raw = EXAMPLES["3.1.1 MCP Requests"].replace("dangerous_operation", "safe")
    start = raw.index('"params": ') + len('"params": ')
    data = raw[:start] + params + "}}"
    with pytest.raises(EnvelopeRefused) as caught:
        check_payload(decode(data.encode()))
    assert caught.value.reason in (RefusalReason.DUPLICATE_MEMBER, RefusalReason.WRONG_CASE)


def test_a_method_that_stands_twice_is_refused() -> None:
    data = REQUEST.replace('"method": "tools/call"', '"method": "tools/list", "method": "tools/call"')
    with pytest.raises(EnvelopeRefused) as caught:
        check_payload(decode(data.encode()))
    assert caught.value.reason is RefusalReason.DUPLICATE_MEMBER


@each_case(
    "payload",
    [
        {},
        {"id": 1, "method": "tools/call", "params": {"name": "x"}},
        {"jsonrpc": "1.0", "id": 1, "method": "tools/call", "params": {"name": "x"}},
        {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "x"}},
        {"jsonrpc": "2.0", "id": None, "method": "tools/call", "params": {"name": "x"}},
        {"jsonrpc": "2.0", "id": True, "method": "tools/call", "params": {"name": "x"}},
        {"jsonrpc": "2.0", "id": "", "method": "tools/call", "params": {"name": "x"}},
        {"jsonrpc": "2.0", "id": 1, "method": 5, "params": {"name": "x"}},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ["x"]},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 5}},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}, "result": {}},
    ],
)
def test_what_is_no_json_rpc_request_is_refused(payload: object) -> None:
    assert refused("mcp/request:tools/call", payload).reason is RefusalReason.INVALID_PAYLOAD


def test_notifications_travel_as_requests_without_an_id() -> None:
    payload = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    notification = envelope("mcp/request:notifications/initialized", payload=payload)
    operation = check_payload(notification)
    assert operation.id is None
    assert open_request(notification, operation) is None
    assert (
        refused("mcp/request:notifications/initialized", {**payload, "id": 1}).reason is RefusalReason.INVALID_PAYLOAD
    )
    answer = {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert refused("mcp/response:notifications/initialized", answer).reason is RefusalReason.INVALID_PAYLOAD


@each_case(
    "payload",
    [
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 1, "message": "x"}},
        {"jsonrpc": "2.0", "id": 1, "result": None},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": "x", "message": "x"}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1}},
        {"jsonrpc": "2.0", "result": {}},
        {"jsonrpc": "2.0", "id": 1, "result": {}, "method": "tools/call"},
        {"id": 1, "result": {}},
    ],
)
def test_what_is_no_json_rpc_response_is_refused(payload: object) -> None:
    assert refused("mcp/response:tools/call", payload, correlation_id="r").reason is RefusalReason.INVALID_PAYLOAD


def test_results_and_errors_are_responses() -> None:
    for name, value in (("result", {}), ("error", {"code": -32602, "message": "no", "data": [1]})):
        payload = {"jsonrpc": "2.0", "id": "a", name: value}
        assert check_payload(envelope("mcp/response:tools/call:x", payload=payload, correlation_id="r")).id == "a"


def answer(**changes: object) -> EnvelopeRefused | None:
    """The fault of a response to the example request that differs in this."""
    request = decode(REQUEST.encode())
    expected = open_request(request, check_payload(request))
    assert expected == OpenRequest(
        "env-call-1", "trusted-agent", ("target-agent",), "tools/call", "dangerous_operation", 42
    )
    response = decode(json.dumps({**json.loads(RESPONSE), **changes}).encode())
    try:
        check_response(response, check_payload(response), expected)
    except EnvelopeRefused as refusal:
        assert refusal.reason is RefusalReason.RESPONSE_MISMATCH
        return refusal
    return None


def test_a_response_fits_its_request() -> None:
    assert answer() is None
    assert answer(kind="mcp/response:tools/call") is None, "CONTEXT is a SHOULD"
    assert answer(kind="mcp/response:prompts/get:dangerous_operation") is not None
    assert answer(kind="mcp/response:tools/call:other") is not None
    assert answer(payload={"jsonrpc": "2.0", "id": 43, "result": {}}) is not None
    assert answer(payload={"jsonrpc": "2.0", "id": "42", "result": {}}) is not None
    assert answer(**{"from": "mallory"}) is not None
    assert answer(**{"from": "trusted-agent"}) is not None


def test_a_response_to_a_request_without_context_may_name_what_it_was_about() -> None:
    request = decode(REQUEST.replace("tools/call:dangerous_operation", "tools/call").encode())
    expected = open_request(request, check_payload(request))
    assert expected is not None
    response = decode(RESPONSE.encode())
    check_response(response, check_payload(response), expected)


def test_only_requests_are_answered() -> None:
    for example in (RESPONSE, FULFILMENT_RESPONSE, EXAMPLES["3.2 MCP Proposals"], EXAMPLES["3.3 Chat Messages"]):
        other = decode(example.encode())
        assert open_request(other, check_payload(other)) is None


@pytest.mark.parametrize("payload", [{"text": "x"}, {"text": "", "format": "markdown"}, {"text": "x", "extra": 1}])
def test_chat_has_text_and_perhaps_a_format(payload: object) -> None:
    check_payload(envelope("chat", payload=payload))


@each_case("payload", [{"message": "x"}, {"text": 1}, {"text": "x", "format": "html"}, {"text": "x", "format": None}])
def test_other_chat_is_refused(payload: object) -> None:
    assert refused("chat", payload).reason is RefusalReason.INVALID_PAYLOAD


@each_case("kind", ["mcp/withdraw", "mcp/reject"])
def test_withdrawals_and_rejections_may_give_a_reason(kind: str) -> None:
    check_payload(envelope(kind, payload={"reason": "busy"}, correlation_id="p"))
    check_payload(envelope(kind, payload={"x": 1}, correlation_id="p"))
    assert refused(kind, {"reason": 5}, correlation_id="p").reason is RefusalReason.INVALID_PAYLOAD


@each_case("payload", [{"jsonrpc": "2.0", "id": 1, "result": {}}, {"method": "tools/call"}, {"params": {}}])
def test_a_proposal_has_a_method_and_its_params(payload: object) -> None:
    assert refused("mcp/proposal:tools/call", payload).reason is RefusalReason.INVALID_PAYLOAD


def test_system_messages_come_from_the_gateway_alone_and_have_their_shape() -> None:
    payload = {"event": "join", "participant": {"id": "x", "capabilities": []}}
    assert refused("system/presence", payload, sender="mallory").reason is RefusalReason.FROM_MISMATCH
    odd = {**payload, "event": "fly"}
    assert refused("system/presence", odd, sender="system:gateway").reason is RefusalReason.INVALID_PAYLOAD
    assert refused("system/other", payload, sender="system:gateway").reason is RefusalReason.UNCHECKABLE_KIND


def test_large_arguments_pass_and_thousands_of_params_do_not() -> None:
    large = call("tools/call", {"name": "x", "arguments": {"text": "y" * 200_000}})
    check_payload(envelope("mcp/request:tools/call:x", payload=large))
    many = call("tools/call", {"name": "x", **{f"p{at}": at for at in range(5_000)}})
    assert refused("mcp/request:tools/call:x", many).reason is RefusalReason.TOO_LARGE
