"""Offers, policies and grants, against a slow and obvious model of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.protocols.mcp.intake import preview
from interlock.protocols.mcpl.capabilities import (
    AFTER_OBSERVE,
    AFTER_REWRITE,
    CHANNELS_INCOMING,
    CHANNELS_PUBLISH,
    CHANNELS_STREAMING,
    EXPLICIT,
    INFERENCE,
    INFERENCE_STREAMING,
    INJECT_AFTER_USER,
    INJECT_BEFORE_USER,
    INJECT_SYSTEM,
    LIFECYCLE,
    MEANING_0_4,
    MODEL_INFO,
    OBSERVE,
    PUSH,
    TOOLS,
    VOCABULARY,
    McplDialect,
)
from interlock.protocols.mcpl.feature_sets import ScopeRules
from interlock.protocols.mcpl.grants import CapabilityGrant, read_grant
from interlock.protocols.mcpl.negotiation import (
    EXTENSION_KEY,
    McplOffer,
    McplPlace,
    answer,
    asked_with,
    dialect_of,
    host_manifest,
    question,
    read_manifest,
    read_offer,
)
from interlock.protocols.mcpl.policy import HostPolicy, effective
from interlock.protocols.patterns import PatternError
from interlock.wire.errors import Fault

USES_0_4 = [
    "pushEvents",
    "contextHooks.beforeInference",
    "contextHooks.afterInference",
    "inferenceRequest",
    "tools",
    "channels.publish",
    "channels.observe",
]


def raw(value: object) -> bytes:
    return json.dumps(value).encode()


def offer(version: str, sets: dict[str, Any] | None = None, **members: object) -> McplOffer:
    found = read_manifest({"version": version, "featureSets": sets or {}, **members})
    assert found is not None
    return found


def using(*uses: str, **members: object) -> dict[str, object]:
    return {"description": "d", "uses": list(uses), **members}


# Negotiation


@each_case(
    ("place", "home"),
    [("experimental", McplPlace.EXPERIMENTAL), ("extensions", McplPlace.EXTENSIONS)],
)
@each_case(
    ("version", "dialect"), [("0.4", McplDialect.V0_4), ("0.4.1-draft", McplDialect.V0_4), ("0.5", McplDialect.V0_5)]
)
def test_an_offer_is_found_in_each_of_its_homes_and_answered_there(
    place: str, home: McplPlace, version: str, dialect: McplDialect
) -> None:
    key = "mcpl" if place == "experimental" else EXTENSION_KEY
    found = read_offer(raw({"tools": {}, place: {key: {"version": version, "pushEvents": True}}}))
    assert found is not None
    assert found[1] is home
    assert found[0].dialect is dialect
    reply = read_offer(raw(answer(host_manifest(version), home)))
    assert reply is not None
    assert reply[1] is home


def test_a_peer_that_did_not_ask_gets_nothing() -> None:
    assert read_offer(b'{"tools":{},"experimental":{"other":{}},"extensions":{"x/y":{}}}') is None


@each_case("version", ["0.3", "1.0", "x", "0", "", "9" * 50])
def test_a_version_that_is_not_spoken_here_is_plain_mcp(version: str) -> None:
    assert dialect_of(version) is None
    assert read_offer(raw({"experimental": {"mcpl": {"version": version}}})) is None


def test_a_later_minor_is_spoken_to_in_0_5_with_a_warning() -> None:
    assert offer("0.6").dialect is McplDialect.V0_5
    assert offer("0.6").warning
    assert not offer("0.5.0-draft").warning


def test_the_hub_asks_in_both_places() -> None:
    asked = question()
    assert read_offer(raw({"experimental": asked["experimental"]})) is not None
    assert read_offer(raw({"extensions": asked["extensions"]})) is not None


def test_the_question_replaces_what_a_client_said_and_keeps_the_rest() -> None:
    theirs = {"roots": {}, "experimental": {"mcpl": {"version": "0.9", "evil": True}, "other": {"a": 1}}}
    asked = json.loads(asked_with(raw(theirs), "0.4"))
    assert asked["roots"] == {}
    assert asked["experimental"]["other"] == {"a": 1}
    assert asked["experimental"]["mcpl"] == asked["extensions"][EXTENSION_KEY]
    assert asked["experimental"]["mcpl"]["version"] == "0.4"
    assert "evil" not in asked["experimental"]["mcpl"]


def test_a_request_of_the_stateless_revision_carries_its_offer() -> None:
    capabilities = {"experimental": {"mcpl": {"version": "0.5", "pushEvents": True}}}
    meta = preview(raw({"_meta": {"io.modelcontextprotocol/clientCapabilities": capabilities}})).meta
    assert meta is not None
    found = read_offer(bytes(meta.client_capabilities))
    assert found is not None
    assert found[0].paths == {PUSH}


@each_case(
    "manifest",
    [
        5,
        {},
        {"version": 4},
        {"version": "0.5", "featureSets": []},
        {"version": "0.5", "featureSets": "all"},
        {"version": "0.4", "featureSets": {f"a{i}": using("tools") for i in range(300)}},
    ],
)
def test_an_offer_that_cannot_be_read_is_an_error(manifest: object) -> None:
    with pytest.raises(Fault):
        read_offer(raw({"experimental": {"mcpl": manifest}}))


@each_case(
    ("members", "paths"),
    [
        ({"pushEvents": True}, {PUSH}),
        ({"pushEvents": False, "modelInfo": None, "tools": "yes"}, set()),
        ({"contextHooks": {"beforeInference": True}}, {OBSERVE, INJECT_SYSTEM, INJECT_BEFORE_USER, INJECT_AFTER_USER}),
        (
            {"contextHooks": {"beforeInference": {"inject": {"beforeUser": True, "system": False}}}},
            {INJECT_BEFORE_USER},
        ),
        (
            {"contextHooks": {"beforeInference": {"inject": True}}},
            {INJECT_SYSTEM, INJECT_BEFORE_USER, INJECT_AFTER_USER},
        ),
        ({"inferenceRequest": {}}, {INFERENCE}),
        ({"inferenceRequest": {"streaming": True}}, {INFERENCE, INFERENCE_STREAMING}),
        ({"inferenceRequest": True}, {INFERENCE, INFERENCE_STREAMING}),
        ({"channels": {"publish": True, "observe": True}}, {CHANNELS_PUBLISH}),
        ({"contextHooks": {"afterInference": {"blocking": True}}}, set()),
        ({"channels.publish": True}, {CHANNELS_PUBLISH}),
    ],
)
def test_a_manifest_of_0_5_offers_the_leaves_it_names(members: dict[str, object], paths: set[str]) -> None:
    assert offer("0.5", **members).paths == paths


@each_case(
    ("members", "paths"),
    [
        ({"pushEvents": True}, {PUSH}),
        ({"contextHooks": {"afterInference": {"blocking": True}}}, {AFTER_OBSERVE, AFTER_REWRITE}),
        ({"contextHooks": {"afterInference": {"blocking": False}}}, {AFTER_OBSERVE}),
        ({"channels": {"observe": True, "streaming": False}}, {CHANNELS_INCOMING, CHANNELS_STREAMING}),
        ({"channels": {"publish": True, "observe": False}}, {CHANNELS_PUBLISH}),
        ({"sets": {"a": using("pushEvents")}, "pushEvents": False}, set()),
        ({"sets": {"a": using("inferenceRequest")}}, {INFERENCE, INFERENCE_STREAMING, MODEL_INFO}),
    ],
)
def test_a_manifest_of_0_4_offers_its_flags_and_what_its_sets_use(members: dict[str, Any], paths: set[str]) -> None:
    assert offer("0.4", **members).paths == paths


def test_chunks_and_waiting_hooks_are_wishes_of_the_server() -> None:
    assert offer("0.4", channels={"observe": True, "streaming": True}).channel_chunks
    assert not offer("0.4", channels={"observe": True}).channel_chunks
    assert offer("0.4", contextHooks={"afterInference": {"blocking": True}}).blocking_after_hook
    assert not offer("0.4", contextHooks={"afterInference": True}).blocking_after_hook


# Grants


@each_case(
    ("entries", "path", "allowed"),
    [
        (["channels.publish"], CHANNELS_PUBLISH, True),
        (["channels.*"], CHANNELS_PUBLISH, True),
        (["channels"], CHANNELS_PUBLISH, False),
        (["*"], CHANNELS_PUBLISH, False),
        (["*"], PUSH, True),
        (["*.*"], CHANNELS_PUBLISH, True),
        (["contextHooks.*"], INJECT_SYSTEM, False),
        (["contextHooks.**"], INJECT_SYSTEM, False),
        (["contextHooks.*.*.*"], INJECT_SYSTEM, True),
        (["contextHooks.beforeInference.inject.*"], INJECT_SYSTEM, True),
        (["chan*.publish"], CHANNELS_PUBLISH, False),
        (["channels.publish.*"], CHANNELS_PUBLISH, False),
        (["Channels.publish"], CHANNELS_PUBLISH, False),
        ([""], "", False),
        (["*"], "", False),
        (["*"], "*", False),
        (["channels.*"], "channels.", False),
        (["channels.*"], "channels.*", False),
        ([], PUSH, False),
    ],
)
def test_a_grant_means_what_the_table_says(entries: list[str], path: str, allowed: bool) -> None:
    assert read_grant(entries).allows(path) is allowed


segments = st.sampled_from(["a", "b", "channels", "publish", "*", "**", "x*"])
entries = st.lists(segments, min_size=1, max_size=4).map(".".join)
subjects = st.lists(st.sampled_from(["a", "b", "channels", "publish"]), min_size=1, max_size=4).map(".".join)


def model_allows(granted: list[str], path: str) -> bool:
    """Segment by segment, as many on both sides; a segment with a star in it is one star or nothing at all."""
    for entry in granted:
        theirs, ours = entry.split("."), path.split(".")
        if len(theirs) == len(ours) and all(
            t == "*" or (t == o and "*" not in t) for t, o in zip(theirs, ours, strict=True)
        ):
            return True
    return False


@given(st.lists(entries, max_size=5), subjects)
def test_a_grant_agrees_with_the_model(granted: list[str], path: str) -> None:
    assert read_grant(granted).allows(path) is model_allows(granted, path)


@given(st.lists(entries, max_size=4), st.lists(entries, max_size=4), subjects)
def test_an_intersection_never_allows_more_than_both(one: list[str], other: list[str], path: str) -> None:
    both = read_grant(one) & read_grant(other)
    if both.allows(path):
        assert model_allows(one, path)
        assert model_allows(other, path)


@given(st.frozensets(st.sampled_from(sorted(VOCABULARY))), st.frozensets(st.sampled_from(sorted(VOCABULARY))))
def test_an_intersection_of_plain_paths_is_exact(one: frozenset[str], other: frozenset[str]) -> None:
    assert (CapabilityGrant(one) & CapabilityGrant(other)).paths == one & other


# Policies

names = st.sampled_from(["memory", "memory.a", "memory.a.b", "memory.b", "chat", "chat.x"])
patterns = st.sampled_from(
    ["memory", "memory.a", "memory.*", "memory.*.b", "memory.**", "*", "chat.*", "*.a", "nothing"]
)
known_uses = {McplDialect.V0_4: USES_0_4, McplDialect.V0_5: sorted(VOCABULARY)}


@st.composite
def declarations(draw: st.DrawFn, dialect: McplDialect) -> dict[str, dict[str, object]]:
    uses = st.lists(st.sampled_from([*known_uses[dialect], "unknown.use"]), max_size=3)
    return {name: using(*draw(uses)) for name in draw(st.frozensets(names, max_size=4))}


def model_names(pattern: str, name: str) -> bool:
    """`*` is one segment, except at the end, where it is everything further."""
    theirs, ours = pattern.split("."), name.split(".")
    if theirs[-1] in ("*", "**"):
        head = theirs[:-1]
        return len(ours) > len(head) and all(t in ("*", o) for t, o in zip(head, ours, strict=False))
    return len(theirs) == len(ours) and all(t in ("*", o) for t, o in zip(theirs, ours, strict=True))


def model_effective(
    dialect: McplDialect, sets: dict[str, dict[str, Any]], policy: HostPolicy, offered: set[str]
) -> tuple[set[str], set[str]]:
    """The enabled sets and the granted paths, worked out one by one."""
    permitted = set()
    for path in offered | {TOOLS}:
        parts = path.split(".")
        above = [".".join(parts[: n + 1]) for n in range(len(parts))]
        if any(model_names(pattern, node) for pattern in policy.denied for node in above):
            continue
        if path in EXPLICIT and path not in policy.granted:
            continue
        permitted.add(path)
    enabled, granted = set(), set()
    for name, said in sets.items():
        uses = said["uses"]
        if not uses or any(use not in known_uses[dialect] for use in uses):
            continue
        if any(model_names(p, name) for p in policy.disabled) or not any(model_names(p, name) for p in policy.enabled):
            continue
        meanings = [
            (set(MEANING_0_4[u].needs), set(MEANING_0_4[u].may)) if dialect is McplDialect.V0_4 else ({u}, set())
            for u in uses
        ]
        if all(needs <= permitted for needs, _ in meanings):
            enabled.add(name)
            for needs, may in meanings:
                granted |= (needs | may) & permitted
    granted |= {path for path in permitted if model_allows(list(policy.granted), path)}
    return enabled, granted


@st.composite
def policies(draw: st.DrawFn) -> HostPolicy:
    paths = st.sampled_from(["channels.*", "*", "contextHooks.*.*.*", *sorted(VOCABULARY), AFTER_REWRITE])
    return HostPolicy(
        enabled=tuple(draw(st.lists(patterns, max_size=3))),
        disabled=tuple(draw(st.lists(patterns, max_size=2))),
        granted=tuple(draw(st.lists(paths, max_size=3))),
        denied=tuple(
            draw(
                st.lists(st.sampled_from(["channels", "channels.*", "contextHooks.*", *sorted(VOCABULARY)]), max_size=2)
            )
        ),
    )


@given(st.data(), st.sampled_from(McplDialect), policies())
def test_the_effective_policy_agrees_with_the_model(
    data: st.DataObject, dialect: McplDialect, policy: HostPolicy
) -> None:
    sets = data.draw(declarations(dialect))
    flags = data.draw(
        st.fixed_dictionaries(
            {},
            optional={
                "pushEvents": st.booleans(),
                "channels": st.booleans(),
                "contextHooks": st.booleans(),
                "modelInfo": st.booleans(),
            },
        )
    )
    found = offer(dialect.value, sets, **flags)
    result = effective(found, policy)
    enabled, granted = model_effective(dialect, sets, policy, set(found.paths))
    assert set(result.enabled_sets) == enabled
    assert result.grant.paths == granted


@given(st.data(), st.sampled_from(McplDialect), policies())
def test_explicit_paths_are_granted_by_name_alone(
    data: st.DataObject, dialect: McplDialect, policy: HostPolicy
) -> None:
    sets = data.draw(declarations(dialect))
    found = offer(dialect.value, sets, contextHooks=True)
    for path in EXPLICIT:
        if path not in policy.granted:
            assert not effective(found, policy).grant.allows(path)


def test_the_empty_policy_grants_nothing() -> None:
    found = offer("0.4", {"a": using(*USES_0_4)}, pushEvents=True, channels=True)
    result = effective(found, HostPolicy())
    assert result.grant.paths == set()
    assert result.enabled_sets == ()


@each_case(
    ("policy", "reason"),
    [
        (HostPolicy(), "not_selected"),
        (HostPolicy(enabled=("a",), disabled=("a",)), "disabled"),
        (HostPolicy(enabled=("a",), denied=("pushEvents",)), "missing_capability"),
    ],
)
def test_a_set_that_is_off_says_why(policy: HostPolicy, reason: str) -> None:
    result = effective(offer("0.5", {"a": using("pushEvents")}, pushEvents=True), policy)
    assert result.states["a"].reason == reason


@each_case("uses", [[], ["nothing"], ["pushEvents", "nothing"], ["channels.register"], ["channels.observe.x"]])
def test_a_set_whose_uses_are_empty_or_unknown_is_never_enabled(uses: list[str]) -> None:
    result = effective(offer("0.4", {"a": using(*uses)}, pushEvents=True), HostPolicy(enabled=("**",), granted=("*",)))
    assert result.states["a"].reason == "invalid_uses"


@each_case(
    ("name", "said"),
    [
        ("a b", using("tools")),
        ("a*", using("tools")),
        ("a..b", using("tools")),
        ("a", {"uses": ["tools"]}),
        ("a", {"description": "d", "uses": "tools"}),
        ("a", 5),
        ("a", {"description": "d", "uses": ["tools"], "scoped": "yes"}),
    ],
)
def test_a_declaration_that_is_wrong_disables_its_own_set_alone(name: str, said: object) -> None:
    result = effective(offer("0.4", {name: said, "sound": using("tools")}), HostPolicy(enabled=("**",)))
    assert result.enabled_sets == ("sound",)


@each_case(
    "policy",
    [
        {"granted": ("channels.**",)},
        {"granted": ("",)},
        {"enabled": ("",)},
        {"disabled": ("x" * 2000,)},
        {"scopes": {"a": ScopeRules(("",))}},
        {"channels": {"chan*": ScopeRules()}},
    ],
)
def test_a_policy_that_cannot_be_used_is_refused_when_it_is_made(policy: dict[str, Any]) -> None:
    with pytest.raises(PatternError):
        HostPolicy(**policy)


# Channels


def channel_grant(policy: HostPolicy, **sets: object) -> CapabilityGrant:
    return effective(offer("0.4", dict(sets), channels=True), policy).grant


@each_case(
    ("channel", "allowed"),
    [
        ("discord:acme/general", True),
        ("discord:acme/a/b", False),
        ("discord:acme/admin-x", False),
        ("discord:other/general", False),
        ("discord:acme/..", False),
        ("thinking", False),
    ],
)
def test_scopes_of_a_set_narrow_its_channels(channel: str, allowed: bool) -> None:
    rules = ScopeRules(("discord:acme/*",), ("discord:acme/admin-*",))
    grant = channel_grant(HostPolicy(enabled=("p",), scopes={"p": rules}), p=using("channels.publish", scoped=True))
    assert grant.allows_channel(CHANNELS_PUBLISH, channel) is allowed


def test_a_scoped_set_without_rules_covers_no_channel_and_an_unscoped_one_all() -> None:
    scoped = channel_grant(HostPolicy(enabled=("p",)), p=using("channels.publish", scoped=True))
    assert scoped.allows(CHANNELS_PUBLISH)
    assert not scoped.allows_channel(CHANNELS_PUBLISH, "ui")
    assert channel_grant(HostPolicy(enabled=("p",)), p=using("channels.publish")).allows_channel(CHANNELS_PUBLISH, "ui")


def test_any_set_suffices_and_every_denial_counts() -> None:
    sets = {"a": using("channels.publish"), "b": using("channels.publish")}
    scopes = {"a": ScopeRules(("x:*",)), "b": ScopeRules(("y:*",), ("x:secret",))}
    grant = channel_grant(HostPolicy(enabled=("*",), scopes=scopes), **sets)
    assert grant.allows_channel(CHANNELS_PUBLISH, "x:1")
    assert grant.allows_channel(CHANNELS_PUBLISH, "y:1")
    assert not grant.allows_channel(CHANNELS_PUBLISH, "x:secret")
    assert not grant.allows_channel(CHANNELS_PUBLISH, "z:1")


def test_a_rule_of_the_policy_narrows_whatever_granted_the_path() -> None:
    policy = HostPolicy(granted=("channels.*",), channels={"channels.*": ScopeRules(("discord:acme/*",), ("**/x",))})
    grant = effective(offer("0.5", channels=True), policy).grant
    assert grant.allows_channel(CHANNELS_PUBLISH, "discord:acme/a")
    assert not grant.allows_channel(CHANNELS_PUBLISH, "discord:acme/x")
    assert not grant.allows_channel(CHANNELS_INCOMING, "ui")


def test_thinking_is_observed_by_its_own_set_alone_and_never_published_to() -> None:
    sets = {
        "channels.thinking": using("channels.observe", scoped=True),
        "all": using("channels.observe", "channels.publish"),
    }
    without = channel_grant(HostPolicy(enabled=("all",)), **sets)
    assert not without.allows_channel(CHANNELS_STREAMING, "thinking")
    grant = channel_grant(HostPolicy(enabled=("**",)), **sets)
    assert grant.allows_channel(CHANNELS_STREAMING, "thinking")
    assert not grant.allows_channel(CHANNELS_PUBLISH, "thinking")
    assert not grant.allows_channel(CHANNELS_INCOMING, "thinking")


def test_an_intersection_keeps_the_rules_of_both() -> None:
    one = channel_grant(HostPolicy(enabled=("p",), scopes={"p": ScopeRules(("x:*",))}), p=using("channels.publish"))
    two = channel_grant(
        HostPolicy(enabled=("p",), scopes={"p": ScopeRules(("x:a", "y:*"))}), p=using("channels.publish")
    )
    both = one & two
    assert [c for c in ("x:a", "x:b", "y:a") if both.allows_channel(CHANNELS_PUBLISH, c)] == ["x:a"]
    crowded = one
    for i in range(20):
        crowded &= channel_grant(
            HostPolicy(enabled=("p",), scopes={"p": ScopeRules(("x:*", f"{i}"))}), p=using("channels.publish")
        )
    assert not crowded.allows(CHANNELS_PUBLISH)


def test_lifecycle_is_of_0_5_alone() -> None:
    assert LIFECYCLE not in offer("0.4", {"a": using(*USES_0_4)}, contextHooks=True, channels=True).paths
