"""The life of MCPL on a connection: off until told, narrower at once, wider only after the server was told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cases import each_case
from example_counts import example_count
from interlock.protocols.mcpl.capabilities import CHANNELS_PUBLISH, MODEL_INFO, PUSH, TOOLS, McplDialect
from interlock.protocols.mcpl.feature_sets import (
    FeatureSetsChanged,
    FeatureSetsUpdate,
    ScopeRules,
    UpdateReceipt,
    apply_change,
)
from interlock.protocols.mcpl.negotiation import McplOffer, read_manifest
from interlock.protocols.mcpl.policy import HostPolicy, effective
from interlock.protocols.mcpl.server_rights import ServerRights, receipt, receive
from interlock.protocols.mcpl.states import (
    TRANSITIONS,
    ConnectionEvent,
    ConnectionPhase,
    McplConnection,
    answered,
    decide,
    redeclare,
    written,
)

SETS = {
    "a": {"description": "d", "uses": ["pushEvents"]},
    "b": {"description": "d", "uses": ["tools"]},
    "c.x": {"description": "d", "uses": ["channels.publish"]},
    "c.y": {"description": "d", "uses": ["pushEvents"]},
}
ALL = HostPolicy(enabled=("**",))
NONE = HostPolicy()
YES = UpdateReceipt(True)
NO = UpdateReceipt(False, fallback="mcp-only")


def offer(version: str, sets: dict[str, Any] = SETS) -> McplOffer:
    found = read_manifest({"version": version, "pushEvents": True, "channels": True, "featureSets": sets})
    assert found is not None
    return found


def told(connection: McplConnection, policy: HostPolicy) -> McplConnection:
    """After the server was told of a policy and, in 0.5, accepted."""
    connection = decide(connection, policy)
    connection = written(connection, connection.update)
    return answered(connection, connection.update, YES) if connection.dialect is McplDialect.V0_5 else connection


@each_case("version", ["0.4", "0.5"])
def test_everything_is_off_until_the_server_was_told(version: str) -> None:
    connection = McplConnection(offer(version))
    assert not connection.on
    connection = decide(connection, ALL)
    assert not connection.on
    assert not connection.active.grant.allows(PUSH)
    connection = written(connection, connection.update)
    assert connection.on is (version == "0.4")
    if version == "0.5":
        assert connection.phase is ConnectionPhase.WAITING
        assert not connection.active.grant.allows(PUSH)
        connection = answered(connection, connection.update, YES)
    assert connection.on
    assert connection.active.enabled_sets == ("a", "b", "c.x", "c.y")


@each_case("version", ["0.4", "0.5"])
def test_a_reduction_holds_before_it_is_sent(version: str) -> None:
    connection = decide(told(McplConnection(offer(version)), ALL), HostPolicy(enabled=("b",)))
    assert connection.on
    assert not connection.active.grant.allows(PUSH)
    assert connection.active.enabled_sets == ("b",)


@each_case("version", ["0.4", "0.5"])
def test_an_expansion_waits_for_the_server(version: str) -> None:
    connection = decide(told(McplConnection(offer(version)), HostPolicy(enabled=("b",))), ALL)
    assert connection.active.enabled_sets == ("b",)
    connection = written(connection, connection.update)
    assert connection.active.grant.allows(PUSH) is (version == "0.4")
    connection = answered(connection, connection.update, YES)
    assert connection.active.grant.allows(PUSH)


def test_a_narrowing_and_widening_again_is_not_in_force_before_the_server_knows() -> None:
    connection = told(McplConnection(offer("0.5")), ALL)
    connection = decide(decide(connection, NONE), ALL)
    assert connection.active.enabled_sets == ()
    assert connection.on


def test_a_late_answer_changes_nothing() -> None:
    connection = decide(told(McplConnection(offer("0.5")), HostPolicy(enabled=("b",))), ALL)
    late = connection.update
    connection = decide(connection, HostPolicy(enabled=("a",)))
    assert answered(connection, late, YES) == connection
    assert answered(connection, late, NO) == connection
    assert written(connection, late) == connection


def test_a_refusal_turns_mcpl_off_and_a_new_decision_may_turn_it_on() -> None:
    connection = decide(told(McplConnection(offer("0.5")), ALL), HostPolicy(enabled=("b",)))
    connection = answered(written(connection, connection.update), connection.update, NO)
    assert connection.phase is ConnectionPhase.REFUSED
    assert not connection.active.grant.paths
    assert told(connection, ALL).on


def test_no_answer_activates_nothing() -> None:
    first = decide(McplConnection(offer("0.5")), ALL)
    first = answered(written(first, first.update), first.update, None)
    assert first.phase is ConnectionPhase.WAITING
    assert not first.active.grant.paths
    later = decide(told(McplConnection(offer("0.5")), HostPolicy(enabled=("b",))), ALL)
    later = answered(written(later, later.update), later.update, None)
    assert later.on
    assert later.active.enabled_sets == ("b",)


def test_an_answer_nobody_asked_for_turns_nothing_on() -> None:
    connection = decide(McplConnection(offer("0.5")), ALL)
    assert answered(connection, connection.update, YES) == connection


def test_the_table_knows_every_phase_and_activates_only_by_telling() -> None:
    assert TRANSITIONS.keys() == set(ConnectionPhase)
    assert TRANSITIONS[ConnectionPhase.OFF].keys() == {ConnectionEvent.NOTIFIED, ConnectionEvent.REQUESTED}


@each_case("version", ["0.4", "0.5"])
def test_the_update_says_all_of_it_even_when_nothing_is_on(version: str) -> None:
    connection = decide(McplConnection(offer(version)), HostPolicy(enabled=("a",), scopes={"a": ScopeRules(("x",))}))
    message = connection.message()
    assert message is not None
    said = msgspec.to_builtins(message)
    assert said["enabled"] == ("a",)
    assert said["disabled"] == ("b", "c.x", "c.y")
    if version == "0.4":
        assert said["scopes"] == {"a": {"whitelist": ("x",)}}
        assert "effectiveCapabilities" not in said
    else:
        assert said["effectiveCapabilities"] == (PUSH,)
        assert not set(said["effectiveCapabilities"]) & set(said["deniedCapabilities"])
        assert "scopes" not in said
    empty = decide(McplConnection(offer(version)), NONE).message()
    assert empty is not None
    assert msgspec.to_builtins(empty)["enabled"] == ()


# Changes that a server makes to itself


def test_a_removed_set_is_off_at_once_and_an_added_one_stays_off() -> None:
    connection = told(McplConnection(offer("0.4")), ALL)
    change = FeatureSetsChanged({"new": {"description": "d", "uses": ["inferenceRequest"]}}, ("a",))
    sets = apply_change(connection.offer.feature_sets, change, McplDialect.V0_4)
    manifest = {**SETS, "new": {"description": "d", "uses": ["inferenceRequest"]}}
    del manifest["a"]
    changed = redeclare(connection, offer("0.4", manifest), ALL)
    assert changed.offer.feature_sets == sets
    assert changed.active.enabled_sets == ("b", "c.x", "c.y")
    assert written(changed, changed.update).active.enabled("new")


def test_a_set_that_was_declared_anew_with_other_uses_is_off_until_it_was_told() -> None:
    connection = told(McplConnection(offer("0.4")), ALL)
    changed = redeclare(connection, offer("0.4", {**SETS, "b": {"description": "d", "uses": ["pushEvents"]}}), ALL)
    assert not changed.active.enabled("b")
    assert changed.active.enabled("a")


def test_a_partly_wrong_manifest_still_takes_away() -> None:
    connection = told(McplConnection(offer("0.5")), ALL)
    manifest = {"a": {"description": "d", "uses": ["nonsense"]}, "b": SETS["b"]}
    found = read_manifest({"version": "0.5", "featureSets": manifest})
    assert found is not None
    changed = redeclare(connection, found, ALL)
    assert changed.active.enabled_sets == ("b",)
    assert changed.active.grant.paths == {TOOLS}


def test_a_change_of_sets_is_bounded() -> None:
    many = {f"s{i}": {"description": "d", "uses": ["tools"]} for i in range(300)}
    with pytest.raises(Exception, match="more than"):
        apply_change({}, FeatureSetsChanged(many), McplDialect.V0_4)


# The whole life against a model


class StateMachine(RuleBasedStateMachine):
    """Policies, writes and answers in any order, against what the server was really told."""

    version = "0.5"

    def __init__(self) -> None:
        super().__init__()
        self.connection = McplConnection(offer(self.version))
        self.newest: set[str] = set()
        self.accepted: set[str] = set()
        self.asked = False
        self.decided = False

    @rule(sets=st.frozensets(st.sampled_from(sorted(SETS))))
    def decide(self, sets: frozenset[str]) -> None:
        self.connection = decide(self.connection, HostPolicy(enabled=tuple(sets)))
        self.newest = set(sets)
        self.accepted &= sets
        self.asked, self.decided = False, True

    @rule()
    def write(self) -> None:
        self.connection = written(self.connection, self.connection.update)
        self.asked = self.decided
        if self.version == "0.4" and self.decided:
            self.accepted = set(self.newest)

    @rule(late=st.booleans())
    def accept(self, late: bool) -> None:
        if self.version == "0.4":
            return
        self.connection = answered(self.connection, self.connection.update - late, YES)
        if self.asked and not late:
            self.accepted = set(self.newest)

    @rule()
    def stay_silent(self) -> None:
        self.connection = answered(self.connection, self.connection.update, None)

    @invariant()
    def in_force_is_what_both_sides_know(self) -> None:
        on = set(self.connection.active.enabled_sets) if self.connection.on else set()
        assert on <= self.newest
        assert on == self.accepted


class OlderStateMachine(StateMachine):
    """The same for 0.4."""

    version = "0.4"


TestLife = StateMachine.TestCase
TestOlderLife = OlderStateMachine.TestCase
TestLife.settings = TestOlderLife.settings = settings(
    max_examples=example_count(20, 40), stateful_step_count=15, deadline=None
)


# The other end


sets_of_names = st.frozensets(st.sampled_from(["a", "b", "c.x", "c.y"]))
patterns = st.lists(st.sampled_from(["a", "b", "c.x", "c.*", "*", "zzz"]), max_size=3).map(tuple)


@given(st.lists(st.tuples(patterns, patterns), max_size=5))
def test_an_update_of_0_4_changes_what_it_names_and_disabled_wins(updates: list[tuple[tuple[str, ...], ...]]) -> None:
    declared = offer("0.4").feature_sets
    selection, model = ServerRights(), dict.fromkeys(declared, False)
    for enabled, disabled in updates:
        selection = receive(
            selection, declared, FeatureSetsUpdate(enabled=enabled, disabled=disabled), McplDialect.V0_4, request=False
        )
        for name in model:
            if any(p in ("*", name) or (p == "c.*" and name.startswith("c.")) for p in disabled):
                model[name] = False
            elif any(p in ("*", name) or (p == "c.*" and name.startswith("c.")) for p in enabled):
                model[name] = True
    assert selection.enabled == {name for name, on in model.items() if on}


def test_before_the_first_update_a_server_may_do_nothing() -> None:
    assert not ServerRights().ready
    assert not ServerRights().enabled


def test_a_request_of_0_5_is_the_whole_policy() -> None:
    declared = offer("0.5").feature_sets
    wide = receive(
        ServerRights(),
        declared,
        FeatureSetsUpdate(effective_capabilities=(PUSH, TOOLS)),
        McplDialect.V0_5,
        request=True,
    )
    assert wide.enabled == {"a", "b", "c.y"}
    chosen = receive(wide, declared, FeatureSetsUpdate((PUSH, TOOLS), enabled=("a",)), McplDialect.V0_5, request=True)
    assert chosen.enabled == {"a"}
    less = receive(wide, declared, FeatureSetsUpdate((PUSH, TOOLS), disabled=("c.*",)), McplDialect.V0_5, request=True)
    assert less.enabled == {"a", "b"}
    nothing = receive(wide, declared, FeatureSetsUpdate(enabled=("a",)), McplDialect.V0_5, request=True)
    assert nothing.enabled == set()
    assert nothing.ready


def test_a_notification_of_0_5_only_takes_away() -> None:
    declared = offer("0.5").feature_sets
    wide = receive(ServerRights(), declared, FeatureSetsUpdate((PUSH, TOOLS)), McplDialect.V0_5, request=True)
    told_off = receive(
        wide, declared, FeatureSetsUpdate((CHANNELS_PUBLISH,), (), ("c.x",), ("a",)), McplDialect.V0_5, request=False
    )
    assert told_off.enabled == {"b", "c.y"}
    assert told_off.grant == wide.grant
    assert not receive(ServerRights(), declared, FeatureSetsUpdate((PUSH,)), McplDialect.V0_5, request=False).ready


def test_a_receipt_names_what_is_missing() -> None:
    declared = offer("0.5").feature_sets
    selection = receive(ServerRights(), declared, FeatureSetsUpdate((PUSH,)), McplDialect.V0_5, request=True)
    found = receipt(selection, declared)
    assert found.mode == "degraded"
    assert {(entry.feature_set, entry.missing_capabilities) for entry in found.unavailable_features} == {
        ("b", (TOOLS,)),
        ("c.x", (CHANNELS_PUBLISH,)),
    }
    everything = receive(
        ServerRights(), declared, FeatureSetsUpdate((PUSH, TOOLS, CHANNELS_PUBLISH)), McplDialect.V0_5, request=True
    )
    assert receipt(everything, declared) == UpdateReceipt(True)


@given(sets_of_names)
def test_both_ends_agree_on_what_is_on(chosen: frozenset[str]) -> None:
    for dialect in McplDialect:
        found = offer(dialect.value)
        connection = told(McplConnection(found), HostPolicy(enabled=tuple(chosen)))
        message = decide(connection, HostPolicy(enabled=tuple(chosen))).message()
        assert message is not None
        sent = msgspec.json.decode(msgspec.json.encode(message), type=FeatureSetsUpdate)
        selection = receive(ServerRights(), found.feature_sets, sent, dialect, request=dialect is McplDialect.V0_5)
        assert selection.enabled == set(connection.active.enabled_sets)


def test_a_path_granted_outright_needs_no_set() -> None:
    found = read_manifest({"version": "0.5", "modelInfo": True})
    assert found is not None
    assert effective(found, HostPolicy(granted=(MODEL_INFO,))).grant.allows(MODEL_INFO)
