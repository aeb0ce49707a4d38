"""Messages at the gate: checked against the grant when they arrive, and again when a response is used."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cases import each_case
from interlock.cli.terminal.show import columns
from interlock.protocols.mcpl.authorization import (
    admit,
    before_inference,
    check_outgoing,
    check_tool_call,
    judge_scope,
    use_injections,
    use_rewrite,
    wants_after_inference,
)
from interlock.protocols.mcpl.capabilities import (
    AFTER_REWRITE,
    CHANNELS_STREAMING,
    INJECT_BEFORE_USER,
    INJECT_SYSTEM,
    OBSERVE,
    McplDialect,
)
from interlock.protocols.mcpl.feature_sets import ScopeRules, UpdateReceipt
from interlock.protocols.mcpl.hooks import AfterInferenceResult, BeforeInference, BeforeInferenceResult, Injection
from interlock.protocols.mcpl.methods import METHODS
from interlock.protocols.mcpl.negotiation import read_manifest
from interlock.protocols.mcpl.policy import HostPolicy
from interlock.protocols.mcpl.states import McplConnection, answered, decide, written
from interlock.wire.errors import ErrorDialect, Fault

MEMORY = {
    "retrieval": ["contextHooks.beforeInference"],
    "extraction": ["contextHooks.afterInference"],
    "consolidation": ["inferenceRequest"],
    "proactive": ["pushEvents"],
    "speaking": ["channels.publish"],
    "listening": ["channels.observe"],
    "liar": ["tools"],
}
MEMBERS = {"pushEvents": True, "channels": True, "contextHooks": True, "inferenceRequest": True, "modelInfo": True}
TURN = BeforeInference("inf", "conv", 0, "my secret", None)


def connect(version: str, policy: HostPolicy, sets: dict[str, Any] | None = None, **members: object) -> McplConnection:
    """A connection on which a policy is in force."""
    declared = {name: {"description": "d", "uses": uses} for name, uses in (sets or MEMORY).items()}
    found = read_manifest({"version": version, "featureSets": declared, **(members or MEMBERS)})
    assert found is not None
    connection = decide(McplConnection(found), policy)
    connection = written(connection, connection.update)
    return answered(connection, connection.update, UpdateReceipt(True)) if version == "0.5" else connection


def push(feature_set: str) -> bytes:
    params = {
        "featureSet": feature_set,
        "eventId": "e",
        "timestamp": "2026-01-23T10:30:00Z",
        "payload": {"content": "x"},
    }
    return json.dumps(params).encode()


def infer(feature_set: str, **more: object) -> bytes:
    params = {"featureSet": feature_set, "messages": [{"role": "user", "content": "x"}], **more}
    return json.dumps(params).encode()


def incoming(*channels: str) -> bytes:
    messages = [
        {"channelId": c, "messageId": f"m{i}", "author": {"id": "u"}, "timestamp": "2026-01-01", "content": "x"}
        for i, c in enumerate(channels)
    ]
    return json.dumps({"messages": messages}).encode()


def registering(*channels: str) -> bytes:
    descriptors = [{"id": c, "type": "t", "label": c, "direction": "bidirectional"} for c in channels]
    return json.dumps({"channels": descriptors}).encode()


def refusal(connection: McplConnection, method: str, params: bytes, *registered: str, **more: Any) -> Fault:
    with pytest.raises(Fault) as refused:
        admit(connection, method, params, registered, **more)
    return refused.value


def test_a_push_of_an_enabled_set_is_admitted() -> None:
    for version, sets in (("0.4", MEMORY), ("0.5", {"proactive": ["pushEvents"]})):
        connection = connect(version, HostPolicy(enabled=("proactive",)), sets)
        assert admit(connection, "push/event", push("proactive")).method.name == "push/event"


def test_a_message_before_the_update_was_written_is_refused() -> None:
    found = read_manifest({"version": "0.4", "featureSets": {"a": {"description": "d", "uses": ["pushEvents"]}}})
    assert found is not None
    connection = decide(McplConnection(found), HostPolicy(enabled=("a",)))
    assert refusal(connection, "push/event", push("a")).render(ErrorDialect.MCPL).code == -32001
    assert refusal(connection, "channels/list", b"{}").render(ErrorDialect.MCPL).code == -32001
    assert admit(written(connection, connection.update), "push/event", push("a"))


def test_a_disabled_set_is_answered_as_the_specification_says() -> None:
    fault = refusal(connect("0.4", HostPolicy()), "push/event", push("proactive"))
    error = fault.render(ErrorDialect.MCPL)
    assert error.code == -32001
    assert error.message == "Feature set not enabled"
    data = json.loads(bytes(error.data))
    assert data["featureSet"] == "proactive"
    assert data["canEnable"] is True
    off = refusal(connect("0.4", HostPolicy(disabled=("proactive",))), "push/event", push("proactive"))
    assert off.data["canEnable"] is False


def test_a_server_of_0_5_is_never_told_what_it_might_obtain() -> None:
    connection = connect("0.5", HostPolicy(enabled=("b",)), {"a": ["pushEvents"], "b": ["pushEvents"]})
    fault = refusal(connection, "push/event", push("a"))
    assert fault.render(ErrorDialect.MCPL).code == -32001
    assert "canEnable" not in fault.data


def test_an_unknown_set_is_told_apart_from_a_disabled_one() -> None:
    for version in ("0.4", "0.5"):
        fault = refusal(connect(version, HostPolicy(enabled=("**",))), "push/event", push("nothing"))
        assert fault.render(ErrorDialect.MCPL).code == -32003


def test_a_message_without_its_set_names_the_field() -> None:
    params = json.loads(push("a"))
    del params["featureSet"]
    fault = refusal(connect("0.4", HostPolicy()), "push/event", json.dumps(params).encode())
    assert fault.render(ErrorDialect.MCPL).code == -32602
    assert fault.data["field"] == "featureSet"


@each_case("version", ["0.4", "0.5"])
def test_a_set_that_does_not_declare_what_it_does_is_refused(version: str) -> None:
    sets = {"liar": ["tools"], "honest": ["pushEvents"]}
    connection = connect(version, HostPolicy(enabled=("**",)), sets)
    fault = refusal(connection, "push/event", push("liar"))
    assert fault.data["reason"] == "declaration_mismatch"
    assert fault.render(ErrorDialect.MCPL).code == (-32001 if version == "0.4" else -32002)


def test_a_set_that_declares_too_much_gains_nothing() -> None:
    sets = {"greedy": ["pushEvents", "inferenceRequest"]}
    connection = connect("0.5", HostPolicy(enabled=("greedy",), denied=("inferenceRequest",)), sets)
    fault = refusal(connection, "inference/request", infer("greedy"))
    assert fault.render(ErrorDialect.MCPL).code == -32002
    assert fault.data["capability"] == "inferenceRequest"


def test_streaming_needs_its_own_capability() -> None:
    sets = {"a": ["inferenceRequest"]}
    connection = connect("0.5", HostPolicy(enabled=("a",)), sets)
    assert admit(connection, "inference/request", infer("a"))
    assert refusal(connection, "inference/request", infer("a", stream=True)).data["capability"].endswith("streaming")
    assert admit(connect("0.4", HostPolicy(enabled=("a",)), sets), "inference/request", infer("a", stream=True))


def test_an_inference_on_account_of_a_hook_is_refused() -> None:
    connection = connect("0.4", HostPolicy(enabled=("consolidation",)))
    fault = refusal(connection, "inference/request", infer("consolidation"), in_hook=True)
    assert fault.name == "INFERENCE_IN_HOOK"
    assert fault.render(ErrorDialect.MCPL).code == -32001


def test_model_info_needs_inference_in_0_4_and_its_own_path_in_0_5() -> None:
    assert (
        refusal(connect("0.4", HostPolicy(enabled=("proactive",))), "model/info", b"{}").render(ErrorDialect.MCPL).code
        == -32001
    )
    assert admit(connect("0.4", HostPolicy(enabled=("consolidation",))), "model/info", b"{}")
    sets = {"a": ["inferenceRequest"], "b": ["modelInfo"]}
    assert (
        refusal(connect("0.5", HostPolicy(enabled=("a",)), sets), "model/info", b"{}").render(ErrorDialect.MCPL).code
        == -32002
    )
    assert admit(connect("0.5", HostPolicy(enabled=("b",)), sets), "model/info", b"{}")


def test_every_message_of_a_server_is_refused_without_a_grant() -> None:
    for dialect in McplDialect:
        connection = connect(dialect.value, HostPolicy())
        for row in METHODS.values():
            if row.sender == "host" or dialect not in row.dialects or not (row.needs or row.tagged):
                continue
            params = {
                "push/event": push("proactive"),
                "inference/request": infer("consolidation"),
                "scope/elevate": b'{"featureSet":"proactive","scope":{"label":"x"}}',
                "channels/register": registering("a"),
                "channels/incoming": incoming("a"),
            }.get(row.name, b"{}")
            assert refusal(connection, row.name, params, "a").render(ErrorDialect.MCPL).code in (-32001, -32002, -32003)


# Channels


def test_channels_need_a_set_that_uses_them() -> None:
    connection = connect("0.4", HostPolicy(enabled=("speaking",)))
    assert admit(connection, "channels/register", registering("a")).refusals == (None,)
    assert refusal(connection, "channels/incoming", incoming("a"), "a").render(ErrorDialect.MCPL).code == -32001
    assert admit(connect("0.4", HostPolicy(enabled=("listening",))), "channels/incoming", incoming("a"), ["a"])


def test_each_descriptor_is_judged_by_itself() -> None:
    policy = HostPolicy(enabled=("speaking",), scopes={"speaking": ScopeRules(("discord:acme/*",))})
    arrival = admit(
        connect("0.4", policy), "channels/register", registering("discord:acme/a", "discord:x/a", "thinking")
    )
    assert [None if fault is None else fault.kind.mcpl for fault in arrival.refusals] == [None, -32017, -32017]


def test_each_incoming_message_is_judged_by_itself() -> None:
    policy = HostPolicy(enabled=("listening",), scopes={"listening": ScopeRules(("ok*",))})
    arrival = admit(connect("0.4", policy), "channels/incoming", incoming("ok", "no", "gone"), ["ok", "no"])
    assert [None if fault is None else fault.kind.mcpl for fault in arrival.refusals] == [None, -32017, -32023]


def test_incoming_messages_of_which_none_is_admitted_are_an_error() -> None:
    connection = connect("0.4", HostPolicy(enabled=("listening",)))
    assert (
        refusal(connection, "channels/incoming", incoming("gone", "gone too")).render(ErrorDialect.MCPL).code == -32023
    )


def test_a_narrowed_grant_holds_for_channels_registered_before() -> None:
    connection = connect("0.4", HostPolicy(enabled=("listening",)))
    assert admit(connection, "channels/incoming", incoming("a"), ["a"])
    narrowed = decide(connection, HostPolicy(enabled=("listening",), scopes={"listening": ScopeRules(("b",))}))
    assert refusal(narrowed, "channels/incoming", incoming("a"), "a").render(ErrorDialect.MCPL).code == -32017


def test_an_update_of_a_channel_that_is_none_is_refused_and_removing_needs_no_leave() -> None:
    connection = connect("0.4", HostPolicy(enabled=("speaking",)))
    descriptor = json.loads(registering("a"))["channels"]
    changed = json.dumps({"added": [], "updated": descriptor, "removed": ["x"]}).encode()
    arrival = admit(connection, "channels/changed", changed, [], notification=True)
    assert [fault.kind.mcpl for fault in arrival.refusals if fault] == [-32023]


def test_channels_of_a_connection_are_bounded() -> None:
    connection = connect("0.4", HostPolicy(enabled=("speaking",)))
    known = [f"k{i}" for i in range(4_095)]
    arrival = admit(connection, "channels/register", registering("k1", "new", "one too many"), known)
    assert [fault is None for fault in arrival.refusals] == [True, True, False]


def test_t22_the_id_of_a_channel_has_no_line_break_and_reorders_nothing() -> None:
    connection = connect("0.4", HostPolicy(enabled=("speaking",)))
    names = ("chat:#team", "chat:#\U0001f469\u200d\U0001f4bb", "a\nchat/b", "x\u202ey", "a\u2028b", "a\x1b[2J")
    arrival = admit(connection, "channels/register", registering(*names), [])
    assert [fault is None for fault in arrival.refusals] == [True, True, False, False, False, False]
    rows = columns([(name, "label\nof two") for name in names])
    assert not any("\n" in row for row in rows), "each row of a table is one line"


def test_a_host_publishes_only_where_the_grant_reaches() -> None:
    policy = HostPolicy(enabled=("speaking",), scopes={"speaking": ScopeRules(("discord:acme/*",))})
    connection = connect("0.4", policy)
    check_outgoing(connection, "channels/publish", channel="discord:acme/a")
    for channel in ("discord:x/a", "thinking"):
        with pytest.raises(Fault) as refused:
            check_outgoing(connection, "channels/publish", channel=channel)
        assert refused.value.name == "CHANNEL_NOT_PERMITTED"


def test_chunks_go_to_servers_that_asked_for_them() -> None:
    policy = HostPolicy(enabled=("listening",))
    quiet = connect("0.4", policy, channels={"observe": True})
    check_outgoing(quiet, "channels/outgoing/complete", channel="a", notification=True)
    with pytest.raises(Fault):
        check_outgoing(quiet, "channels/outgoing/chunk", channel="a", notification=True)
    wanting = connect("0.4", policy, channels={"observe": True, "streaming": True})
    check_outgoing(wanting, "channels/outgoing/chunk", channel="a", notification=True)
    assert wanting.active.grant.allows(CHANNELS_STREAMING)


# Hooks


def injection(position: Any) -> Injection:
    return Injection("n", position, "text")


def test_a_server_that_may_not_observe_is_called_without_the_users_text() -> None:
    sets = {"body": [INJECT_BEFORE_USER]}
    params = before_inference(connect("0.5", HostPolicy(enabled=("body",)), sets), TURN)
    assert params is not None
    assert params.user_message is None
    assert before_inference(connect("0.5", HostPolicy(enabled=("r",)), {"r": [OBSERVE]}), TURN) == TURN
    assert before_inference(connect("0.5", HostPolicy(enabled=("p",)), {"p": ["pushEvents"]}), TURN) is None
    assert before_inference(connect("0.4", HostPolicy(enabled=("proactive",))), TURN) is None


@each_case("version", ["0.4", "0.5"])
def test_the_system_position_needs_a_grant_of_its_own(version: str) -> None:
    hook = ["contextHooks.beforeInference"] if version == "0.4" else [OBSERVE, INJECT_BEFORE_USER]
    result = BeforeInferenceResult("r", (injection("system"), injection("beforeUser")))
    plain = use_injections(connect(version, HostPolicy(enabled=("r",)), {"r": hook}), result)
    assert [found.position for found in plain.accepted] == ["beforeUser"]
    assert len(plain.refused) == 1
    hook = hook if version == "0.4" else [*hook, INJECT_SYSTEM]
    explicit = connect(version, HostPolicy(enabled=("r",), granted=(INJECT_SYSTEM,)), {"r": hook})
    assert len(use_injections(explicit, result).accepted) == 2


def test_a_response_that_was_under_way_meets_the_grant_of_now() -> None:
    connection = connect("0.4", HostPolicy(enabled=("retrieval",)))
    result = BeforeInferenceResult("retrieval", (injection("beforeUser"),))
    assert use_injections(connection, result).accepted
    assert not use_injections(decide(connection, HostPolicy()), result).accepted


@each_case("named", ["proactive", "extraction", "nothing", None])
def test_a_0_4_response_in_the_name_of_another_set_is_not_used(named: str | None) -> None:
    connection = connect("0.4", HostPolicy(enabled=("retrieval", "proactive")))
    assert not use_injections(connection, BeforeInferenceResult(named, (injection("beforeUser"),))).accepted


def test_the_set_that_a_0_5_response_names_decides_nothing() -> None:
    connection = connect("0.5", HostPolicy(enabled=("r",)), {"r": [INJECT_BEFORE_USER]})
    for named in ("r", "nothing", None):
        result = BeforeInferenceResult(named, (injection("beforeUser"), injection("afterUser")))
        assert [found.position for found in use_injections(connection, result).accepted] == ["beforeUser"]


def test_rewriting_an_answer_needs_a_grant_of_its_own() -> None:
    result = AfterInferenceResult("extraction", "rewritten")
    plain = connect("0.4", HostPolicy(enabled=("extraction",)))
    assert wants_after_inference(plain)
    with pytest.raises(Fault):
        use_rewrite(plain, result)
    assert use_rewrite(plain, AfterInferenceResult("extraction")) is None
    explicit = connect("0.4", HostPolicy(enabled=("extraction",), granted=(AFTER_REWRITE,)))
    assert use_rewrite(explicit, result) == "rewritten"
    with pytest.raises(Fault):
        use_rewrite(decide(explicit, HostPolicy(granted=(AFTER_REWRITE,))), result)
    with pytest.raises(Fault):
        use_rewrite(explicit, AfterInferenceResult(None, "rewritten"))
    assert not wants_after_inference(connect("0.4", HostPolicy(enabled=("retrieval",))))


# Tools


def test_a_tool_of_a_set_that_is_off_is_not_called() -> None:
    connection = connect("0.4", HostPolicy(enabled=("liar",)))
    check_tool_call(connection, "liar", scoped=False)
    check_tool_call(connection, None, scoped=False)
    for name, scoped, rollback in (
        ("proactive", False, False),
        (None, True, False),
        (None, False, True),
        ("liar", True, False),
        ("liar", False, True),
    ):
        with pytest.raises(Fault):
            check_tool_call(connection, name, scoped=scoped, rollback=rollback)


def test_elevation_is_for_scoped_sets() -> None:
    found = read_manifest(
        {
            "version": "0.4",
            "featureSets": {
                "s": {"description": "d", "uses": ["tools"], "scoped": True},
                "p": {"description": "d", "uses": ["tools"]},
            },
        }
    )
    assert found is not None
    connection = decide(McplConnection(found), HostPolicy(enabled=("**",)))
    connection = written(connection, connection.update)
    assert admit(connection, "scope/elevate", b'{"featureSet":"s","scope":{"label":"x"}}')
    assert refusal(connection, "scope/elevate", b'{"featureSet":"p","scope":{"label":"x"}}').name == "INVALID_PARAMS"


def editing(policy: HostPolicy, **declaration: object) -> McplConnection:
    """A connection with one scoped set, in force."""
    declared = {"description": "d", "uses": ["tools"], "scoped": True, **declaration}
    found = read_manifest({"version": "0.4", "featureSets": {"files.edit": declared}})
    assert found is not None
    connection = decide(McplConnection(found), policy)
    return written(connection, connection.update)


FILES = HostPolicy(enabled=("files.*",), scopes={"files.edit": ScopeRules(("/project/**",), ("**/.env",))})
TEMPLATE = {"_meta": {"dev.interlock/scopeLabel": "{path}"}}


@each_case(
    ("path", "claimed", "outcome"),
    [
        ("/project/a", "/project/a", "allow"),
        ("/project/a", None, "allow"),
        ("/project/.env", None, "deny"),
        ("/etc/hosts", None, "ask"),
        ("/etc/hosts", "/project/a", None),
    ],
)
def test_a_scope_is_judged_by_the_label_that_the_arguments_make(
    path: str, claimed: str | None, outcome: str | None
) -> None:
    connection = editing(FILES, **TEMPLATE)
    if outcome is None:
        with pytest.raises(Fault) as refused:
            judge_scope(connection, "files.edit", {"path": path}, claimed)
        assert refused.value.data["field"] == "scope.label"
    else:
        assert judge_scope(connection, "files.edit", {"path": path}, claimed)[1].outcome == outcome


def test_the_operators_template_replaces_the_servers() -> None:
    policy = HostPolicy(enabled=("files.*",), scopes=FILES.scopes, scope_labels={"files.edit": "{file}"})
    label, decision = judge_scope(
        editing(policy, **TEMPLATE), "files.edit", {"path": "/project/a", "file": "/etc/x"}, None
    )
    assert (label, decision.outcome) == ("/etc/x", "ask")


def test_a_scope_of_a_set_that_is_off_or_of_no_set_is_refused() -> None:
    for connection, name in ((editing(HostPolicy()), "files.edit"), (editing(FILES), None), (editing(FILES), "other")):
        with pytest.raises(Fault):
            judge_scope(connection, name, {"path": "/project/a"}, "/project/a")


def test_without_rules_every_scope_is_asked() -> None:
    assert judge_scope(editing(HostPolicy(enabled=("**",))), "files.edit", {}, "/x")[1].outcome == "ask"
