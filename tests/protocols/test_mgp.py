"""MGP's rules: negotiation, permissions, effective risk, and the precedence of grants against an exhaustive table."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.protocols.mgp.access import AccessEntry, decide
from interlock.protocols.mgp.negotiation import EXTENSIONS, MgpPlace, agree, answer, question, read_offer
from interlock.protocols.mgp.permissions import STANDARD, Risk, expand, expand_all, is_permission, risk_of
from interlock.protocols.mgp.permissions import decide as decide_permission
from interlock.protocols.mgp.security import (
    Hints,
    Security,
    Trust,
    effective_risk,
    lower_trust,
    named_permissions,
    read_security,
)
from interlock.wire.errors import Fault

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OFFER = {"version": "0.1.0", "extensions": ["security", "audit", "com.example.own"]}


@each_case(
    ("capabilities", "home"),
    [
        ({"mgp": OFFER}, MgpPlace.PLAIN),
        ({"experimental": {"mgp": OFFER}}, MgpPlace.EXPERIMENTAL),
        ({"extensions": {"dev.cloto/mgp": OFFER}}, MgpPlace.EXTENSIONS),
    ],
)
def test_an_offer_is_found_in_each_of_its_homes_and_answered_there(
    capabilities: dict[str, object], home: MgpPlace
) -> None:
    found = read_offer(json.dumps(capabilities).encode())
    assert found is not None
    assert found[1] is home
    agreed = agree(EXTENSIONS, *found)
    assert agreed is not None
    assert agreed.extensions == {"security", "audit"}
    reply = read_offer(json.dumps(answer(agreed)).encode())
    assert reply is not None
    assert reply[1] is home
    assert set(reply[0].extensions) == {"security", "audit"}


def test_a_peer_that_did_not_ask_gets_nothing() -> None:
    assert read_offer(b'{"tools":{},"experimental":{"other":{}},"extensions":{"x/y":{}}}') is None


@each_case("capabilities", [b'{"mgp":5}', b'{"mgp":{"version":1}}', b'{"mgp":{"extensions":[]}}'])
def test_an_offer_that_cannot_be_read_is_an_error(capabilities: bytes) -> None:
    with pytest.raises(Fault):
        read_offer(capabilities)


@each_case(
    ("version", "spoken", "warned"),
    [
        ("0.2.0", True, False),
        ("0.1.0", True, True),
        ("0.3.0-draft", True, True),
        ("1.0.0", False, False),
        ("x", False, False),
    ],
)
def test_versions_fit_by_their_major(version: str, spoken: bool, warned: bool) -> None:
    found = read_offer(json.dumps({"mgp": {"version": version, "extensions": ["audit"]}}).encode())
    assert found is not None
    agreed = agree(EXTENSIONS, *found)
    assert (agreed is not None) is spoken
    assert bool(agreed and agreed.warning) is warned


@given(st.sets(st.sampled_from(EXTENSIONS)), st.sets(st.sampled_from(EXTENSIONS)))
def test_what_is_spoken_is_the_intersection(ours: set[str], theirs: set[str]) -> None:
    found = read_offer(json.dumps({"mgp": {"version": "0.2.0", "extensions": sorted(theirs)}}).encode())
    assert found is not None
    agreed = agree(ours, *found)
    assert agreed is not None
    assert agreed.extensions == ours & theirs


def test_the_hub_asks_in_every_home() -> None:
    assert set(question()) == {"mgp", "experimental", "extensions"}


@each_case(
    ("names", "expanded"),
    [
        (["shell"], ("shell.execute",)),
        (["network"], ("network.outbound", "network.listen")),
        (["filesystem", "filesystem.read"], ("filesystem.read", "filesystem.write")),
        (["camera"], ("camera",)),
        (["com.example.custom_permission"], ("com.example.custom_permission",)),
    ],
)
def test_a_family_stands_for_its_members(names: list[str], expanded: tuple[str, ...]) -> None:
    assert expand(names) == expanded


@each_case("name", ["", "everything", "shell.", "shell.other", "file", "two.parts", ".a.b", "a..b"])
def test_an_unknown_permission_is_refused(name: str) -> None:
    with pytest.raises(Fault, match="no such permission"):
        expand([name])


@each_case(
    ("security", "named"),
    [
        ({}, None),
        ({"risk_level": "safe"}, None),
        ({"permissions_required": []}, ()),
        ({"permissions_required": ["shell", "com.example.own"]}, ("shell.execute", "com.example.own")),
        ({"permissions_required": ["everything"]}, ("everything",)),
        ({"permissions_required": "shell"}, None),
        ({"permissions_required": [1]}, None),
        ([], None),
    ],
)
def test_a_tool_names_its_permissions_and_what_cannot_be_read_names_none(
    security: object, named: tuple[str, ...] | None
) -> None:
    assert named_permissions(json.dumps(security).encode()) == named


@each_case(("name", "risk"), [("memory", Risk.MODERATE), ("network", Risk.DANGEROUS), ("x", Risk.DANGEROUS)])
def test_a_family_is_as_risky_as_its_worst_member(name: str, risk: Risk) -> None:
    assert risk_of(name) is risk


@given(st.lists(st.sampled_from([*STANDARD, "shell", "network", "com.x.y", "everything", ""])))
def test_what_a_server_declares_is_expanded_and_nothing_of_it_is_lost(names: list[str]) -> None:
    found = expand_all(names)
    assert len(found) == len(set(found))
    assert all(name in found or any(one.startswith(name + ".") for one in found) for name in names)
    assert [name for name in found if not is_permission(name)] == [
        name for name in dict.fromkeys(names) if name in ("everything", "")
    ]


def test_a_custom_permission_counts_as_dangerous() -> None:
    assert risk_of("com.example.own") is Risk.DANGEROUS
    assert len(STANDARD) == 11


@each_case(
    ("policy", "configured", "other"),
    [
        ("interactive", "approved", "deferred"),
        ("auto_approve", "approved", "approved"),
        ("deny_all", "approved", "denied"),
        ("config_only", "approved", "denied"),
    ],
)
def test_the_four_policies(policy: str, configured: str, other: str) -> None:
    assert decide_permission("shell.execute", policy, {"shell.execute"}) == configured  # type: ignore[arg-type]
    assert decide_permission("shell.execute", policy, {"camera"}) == other  # type: ignore[arg-type]


securities = st.one_of(
    st.none(),
    st.builds(
        Security,
        risk_level=st.sampled_from(["safe", "moderate", "dangerous", "", "harmless"]),
        permissions_required=st.lists(st.sampled_from([*STANDARD, "com.x.y"]), max_size=3).map(tuple),
        side_effects=st.lists(st.sampled_from(["filesystem", "network"]), max_size=2).map(tuple),
        reversible=st.sampled_from([None, True, False]),
    ),
)
flags = st.sampled_from([None, True, False])
hints = st.builds(Hints, read_only_hint=flags, destructive_hint=flags)


@given(securities, hints)
def test_less_trust_never_means_less_risk(declared: Security | None, hinted: Hints) -> None:
    risks = [effective_risk(declared, hinted, trust) for trust in (Trust.TRUSTED, Trust.STANDARD, Trust.SANDBOXED)]
    assert risks == sorted(risks)


@given(securities, hints)
def test_an_untrusted_server_cannot_make_anything_safe(declared: Security | None, hinted: Hints) -> None:
    assert effective_risk(declared, hinted, Trust.SANDBOXED) >= Risk.MODERATE


@each_case(
    ("declared", "hinted", "trust", "risk"),
    [
        (None, Hints(), Trust.STANDARD, Risk.MODERATE),
        (None, Hints(read_only_hint=True), Trust.STANDARD, Risk.SAFE),
        (None, Hints(read_only_hint=True), Trust.SANDBOXED, Risk.MODERATE),
        (None, Hints(destructive_hint=True), Trust.STANDARD, Risk.DANGEROUS),
        (Security(risk_level="safe"), Hints(), Trust.STANDARD, Risk.SAFE),
        (Security(risk_level="safe", permissions_required=("shell.execute",)), Hints(), Trust.STANDARD, Risk.DANGEROUS),
        (Security(risk_level="safe", permissions_required=("shell.execute",)), Hints(), Trust.TRUSTED, Risk.SAFE),
        (Security(risk_level="nonsense"), Hints(), Trust.TRUSTED, Risk.DANGEROUS),
    ],
)
def test_what_a_tool_is_reckoned_with(declared: Security | None, hinted: Hints, trust: Trust, risk: Risk) -> None:
    assert effective_risk(declared, hinted, trust) is risk


def test_a_declaration_that_cannot_be_read_declares_the_worst() -> None:
    declared, hinted = read_security(b'{"security":{"risk_level":["safe"]}}')
    assert effective_risk(declared, hinted, Trust.STANDARD) is Risk.DANGEROUS


def test_nulls_declare_what_absent_members_do() -> None:
    assert read_security(b'{"security":null,"annotations":null}') == read_security(b"{}")


@each_case(
    ("given_", "claimed", "left"),
    [
        (Trust.STANDARD, "trusted", Trust.STANDARD),
        (Trust.STANDARD, "sandboxed", Trust.SANDBOXED),
        (Trust.TRUSTED, None, Trust.TRUSTED),
        (Trust.TRUSTED, "emperor", Trust.TRUSTED),
    ],
)
def test_a_server_may_lower_its_own_trust_and_never_raise_it(given_: Trust, claimed: str | None, left: Trust) -> None:
    assert lower_trust(given_, claimed) is left


LIFE = {"none": None, "live": NOW + timedelta(hours=1), "expired": NOW - timedelta(hours=1), "now": NOW}


def entries(kind: str, said: tuple[tuple[str, str], ...]) -> list[AccessEntry]:
    tool = "t" if kind == "tool_grant" else None
    return [AccessEntry(kind, "a", "s", permission, tool, expires_at=LIFE[life]) for permission, life in said]  # type: ignore[arg-type]


def model(tool: list[AccessEntry], server: list[AccessEntry], default: str) -> str:
    """The rule in other words: the first level with a live entry decides, and one live denial there is enough."""
    for level in (tool, server):
        live = {entry.permission for entry in level if entry.expires_at is None or entry.expires_at > NOW}
        if live:
            return "deny" if "deny" in live else "allow"
    return "allow" if default == "opt-out" else "deny"


ONE = [(), *(((permission, life),) for permission in ("allow", "deny") for life in LIFE)]
LEVELS = [
    *ONE,
    *itertools.combinations([("allow", "none"), ("deny", "none"), ("allow", "expired"), ("deny", "expired")], 2),
]


@each_case("default", ["opt-in", "opt-out"])
def test_precedence_is_what_the_whole_table_says(default: str) -> None:
    for tool_said, server_said in itertools.product(LEVELS, LEVELS):
        tool, server = entries("tool_grant", tool_said), entries("server_grant", server_said)
        for order in (tool + server, server + tool, (tool + server)[::-1]):
            assert decide(order, "t", default, NOW).permission == model(tool, server, default)  # type: ignore[arg-type]


def test_a_grant_for_another_tool_says_nothing_about_this_one() -> None:
    other = AccessEntry("tool_grant", "a", "s", "allow", "other")
    assert decide([other], "t", "opt-in", NOW).source == "default_policy"


def test_what_was_decided_is_good_until_the_first_entry_expires() -> None:
    soon, later = NOW + timedelta(minutes=1), NOW + timedelta(minutes=2)
    found = decide(
        [
            AccessEntry("tool_grant", "a", "s", "allow", "t", expires_at=later),
            AccessEntry("server_grant", "a", "s", "deny", expires_at=soon),
        ],
        "t",
        "opt-in",
        NOW,
    )
    assert (found.permission, found.until) == ("allow", soon)


@each_case(("kind", "tool"), [("tool_grant", None), ("server_grant", "t")])
def test_a_grant_that_does_not_know_what_it_is_for_cannot_be_made(kind: str, tool: str | None) -> None:
    with pytest.raises(ValueError):
        AccessEntry(kind, "a", "s", "allow", tool)  # type: ignore[arg-type]
