"""Which kinds a capability covers, against a slow and obvious model of the same rules."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cases import each_case
from example_counts import example_count
from interlock.protocols.mcpx.capabilities import (
    MAX_CAPABILITIES,
    MAX_CHARACTERS,
    MAX_WILDCARDS,
    PROFILES,
    CapabilitySet,
    check_usable,
)
from interlock.protocols.mcpx.kinds import MAX_KIND_CHARS, parse_kind
from interlock.protocols.patterns import PatternError


@each_case(
    ("capability", "kind", "covered"),
    [
        # The specification's pattern matching examples.
        ("mcp/*", "mcp/request:tools/call", True),
        ("mcp/request:*", "mcp/request:tools/call", True),
        ("mcp/request:tools/*", "mcp/request:tools/call", True),
        ("mcp/request:tools/call", "mcp/request:tools/call", True),
        ("mcp/*", "mcp/response:tools/call", True),
        ("mcp/response:*", "mcp/response:tools/call", True),
        ("mcp/response:tools/*", "mcp/response:tools/call", True),
        ("chat", "chat", True),
        ("chat", "chat/x", False),
        ("mcp/*", "chat", False),
        # A star at the end matches any suffix.
        ("mcp/*", "mcp/proposal:tools/call:x", True),
        ("mcp/*", "mcp/withdraw", True),
        ("mcp/request:tools/*", "mcp/request:tools/call:read_file", True),
        ("mcp/request:tools/*", "mcp/response:tools/call", False),
        ("mcp/request:tools/*", "mcp/request:toolsets/list", False),
        ("mcp/request:tools/call:read_*", "mcp/request:tools/call:read_file", True),
        ("mcp/request:tools/call:read_*", "mcp/request:tools/call:write_file", False),
        ("mcp/request:tools/call:**", "mcp/request:tools/call:a/b:c", True),
        ("*", "mcp/request:tools/call", True),
        # An inner star matches one or more segments of METHOD, and never crosses a colon.
        ("mcp/request:*/list", "mcp/request:tools/list", True),
        ("mcp/request:*/list", "mcp/request:resources/templates/list", True),
        ("mcp/request:*/list", "mcp/request:list", False),
        ("mcp/request:*/list", "mcp/request:tools/call:x/list", False),
        ("mcp/request:*/list", "mcp/response:tools/list", False),
        ("mcp/request:**/list", "mcp/request:list", True),
        ("mcp/request:**/list", "mcp/request:tools/call:x/list", False),
        ("mcp/request:re*/list", "mcp/request:resources/list", True),
        ("mcp/request:re*/list", "mcp/request:resources/templates/list", False),
        ("mcp/*:tools/call", "mcp/proposal:tools/call", True),
        ("mcp/*:tools/call", "mcp/request:x:tools/call", False),
        ("mcp/request:*:x", "mcp/request:tools/call:x", True),
        ("mcp/request:*:x", "mcp/request:tools/call:y:x", False),
        ("mcp/request:resources/read:file:///*/a.md", "mcp/request:resources/read:file:///b/a.md", True),
        ("mcp/request:resources/read:file:///*/a.md", "mcp/request:resources/read:file:///b/c/a.md", False),
        ("mcp/request:resources/read:file:///**/a.md", "mcp/request:resources/read:file:///b/c:d/a.md", True),
        # Without CONTEXT every context of the METHOD; with CONTEXT only that, and never a kind without one.
        ("mcp/request:resources/read", "mcp/request:resources/read:file:///a:b", True),
        ("mcp/request:resources/read", "mcp/request:resources/readme", False),
        ("mcp/request:*/list", "mcp/request:tools/list:x", True),
        ("mcp/request:resources/read:file:///a", "mcp/request:resources/read:file:///a", True),
        ("mcp/request:resources/read:file:///a", "mcp/request:resources/read:file:///a:b", False),
        ("mcp/request:resources/read:file:///a", "mcp/request:resources/read", False),
        ("mcp/request:tools/call:*", "mcp/request:tools/call", False),
        ("mcp/request:tools/call:*", "mcp/request:tools/call:x", True),
        ("mcp/request", "mcp/request:tools/call", False),
        # Every other character means itself, and case counts.
        ("chat", "Chat", False),
        ("mcp/request:tools/c?ll", "mcp/request:tools/call", False),
        ("mcp/request:tools/[a-z]*", "mcp/request:tools/call", False),
        ("mcp.request:*", "mcp/request:tools/call", False),
        ("mcp/request:tools/call:größ*", "mcp/request:tools/call:größe", True),
        # A wildcard never vouches for a context that climbs.
        ("mcp/request:resources/read:file:///p/*", "mcp/request:resources/read:file:///p/a", True),
        ("mcp/request:resources/read:file:///p/*", "mcp/request:resources/read:file:///p/../etc", False),
        ("mcp/request:resources/read:file:///p/*", "mcp/request:resources/read:file:///p/%2E%2e/etc", False),
        ("mcp/request:resources/read:file:///p/../q", "mcp/request:resources/read:file:///p/../q", True),
        ("mcp/request:resources/read", "mcp/request:resources/read:file:///p/../etc", True),
        ("mcp/request:resources/read:*", "mcp/request:resources/read:file:///p/../etc", True),
    ],
)
def test_capabilities_cover_the_kinds_they_should(capability: str, kind: str, covered: bool) -> None:
    assert CapabilitySet([capability]).covers(kind) is covered


def documented() -> list[tuple[str, str, bool]]:
    """The rows of the documentation's table."""
    page = (Path(__file__).parents[3] / "docs" / "rooms-protocol.md").read_text()
    table = page.split("| capability | covers | does not cover |")[1].split("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.strip().splitlines()[1:]]
    kinds = [
        (row[0].strip("`"), kind, at == 1)
        for row in rows
        for at in (1, 2)
        for kind in re.findall(r"`([^`]+)`", row[at])
    ]
    assert len(kinds) > 14
    return kinds


@each_case(("capability", "kind", "covered"), documented())
def test_the_documented_examples_are_true(capability: str, kind: str, covered: bool) -> None:
    assert CapabilitySet([capability]).covers(parse_kind(kind).text) is covered


@each_case("kind", ["system/welcome", "system/presence", "system/error", "system/x"])
def test_no_capability_covers_what_only_the_gateway_sends(kind: str) -> None:
    assert not CapabilitySet(["*", "s*", "**", "*ystem/*"]).covers(kind)


@each_case("text", ["system/*", "system/presence", ""])
def test_a_capability_that_could_never_be_used_is_refused_when_it_is_written(text: str) -> None:
    with pytest.raises(PatternError):
        CapabilitySet([text])
    CapabilitySet(["mcp/*"])


@each_case(
    "text",
    [
        "mcp/reqest:tools/*",
        "mcp/reqest:*",
        "mcp/reqest*",
        "mcp/x*:tools/call",
        "mcp/request",
        "mcp/chat*:x",
        "chat:*",
        "Chat",
        "mcp",
        "presence",
        "mcp/request:tools call",
        "mcp/request:tools/call:",
    ],
)
def test_a_capability_that_no_kind_can_match_is_refused_when_it_is_written(text: str) -> None:
    CapabilitySet((text,))  # of another gateway it does no harm
    with pytest.raises(PatternError, match="can never be used"):
        check_usable((text,))


def test_capabilities_that_some_kind_matches_are_taken() -> None:
    for texts in PROFILES.values():
        check_usable(texts)
    check_usable(("*", "m*", "mcp/*", "mcp/re*:tools/call", "mcp/request:*/list", "com.example/status*", "chat"))
    check_usable(("mcp/request:tools/call:write_*", "mcp/request:resources/read:file:///a b*"))


def test_a_set_covers_what_any_of_its_capabilities_covers() -> None:
    both = CapabilitySet(["mcp/request:*/list", "mcp/request:tools/call:a", "chat", "mcp/response:*"])
    for kind in ("mcp/request:tools/list", "mcp/request:tools/call:a", "chat", "mcp/response:ping"):
        assert both.covers(kind)
    for kind in ("mcp/request:tools/call", "mcp/request:tools/call:b", "mcp/proposal:tools/call"):
        assert not both.covers(kind)
    assert not CapabilitySet([]).covers("chat")


ALLOWED = {
    "full-access": {"mcp/request:tools/call:x", "mcp/response:tools/call", "mcp/proposal:tools/call", "chat"},
    "proposal-only": {"mcp/proposal:tools/call", "mcp/response:tools/call", "chat"},
    "response-only": {"mcp/response:tools/call", "chat"},
    "read-only": {"mcp/request:resources/read:file:///a", "mcp/request:tools/list", "mcp/response:tools/call", "chat"},
    "tool-only": {"mcp/request:tools/call:x", "mcp/request:tools/list", "mcp/response:tools/call", "chat"},
}


@each_case("profile", PROFILES)
def test_the_five_profiles_allow_what_the_specification_says(profile: str) -> None:
    capabilities = CapabilitySet(PROFILES[profile])
    everything = set().union(*ALLOWED.values()) | {"mcp/request:resources/subscribe:file:///a"}
    refused = everything - ALLOWED[profile] - (everything if profile == "full-access" else set())
    assert all(capabilities.covers(kind) for kind in ALLOWED[profile])
    assert not any(capabilities.covers(kind) for kind in refused)


def test_trust_grows_step_by_step() -> None:
    initial = ("mcp/proposal:*", "chat")
    basic = (*initial, "mcp/request:resources/read")
    trusted = (*basic, "mcp/request:tools/*")
    for texts, reads, calls in (
        (initial, False, False),
        (basic, True, False),
        (trusted, True, True),
        (("mcp/*",), True, True),
    ):
        assert CapabilitySet(texts).covers("mcp/request:resources/read:file:///a") is reads
        assert CapabilitySet(texts).covers("mcp/request:tools/call:x") is calls


@each_case(
    "texts",
    [
        [f"mcp/request:x{at}" for at in range(MAX_CAPABILITIES + 1)],
        ["x" * 1000 + str(at) for at in range(MAX_CHARACTERS // 1000 + 1)],
        [f"mcp/request:{'*a' * MAX_WILDCARDS}*b"],
        [f"mcp/request:*/a{at}" for at in range(MAX_WILDCARDS + 1)],
        ["x" * 1025],
    ],
)
def test_the_capabilities_of_a_participant_are_bounded(texts: list[str]) -> None:
    with pytest.raises(PatternError):
        CapabilitySet(texts)


@each_case(
    ("capability", "unit"),
    [
        ("mcp/request:x:" + "*a" * MAX_WILDCARDS + "b", "a"),
        ("mcp/request:x:" + "**a" * MAX_WILDCARDS + "b", "a/"),
        ("mcp/request:x:" + "**/a/" * MAX_WILDCARDS + "b", "a/"),
        ("mcp/request:" + "*/a/" * MAX_WILDCARDS + "b", "a/"),
        ("mcp/request:" + "**a" * MAX_WILDCARDS + ":b", "ab"),
    ],
)
def test_hostile_patterns_take_time_linear_in_the_kind(capability: str, unit: str) -> None:
    compiled = CapabilitySet([capability])
    begin = "mcp/request:x:" if ":x:" in capability else "mcp/request:"

    def cost(length: int) -> float:
        kind = (begin + unit * length)[:length]
        found = []
        for _ in range(7):
            started = time.thread_time_ns()
            for _ in range(20):
                assert not compiled.covers(kind)
            found.append(time.thread_time_ns() - started)
        return min(found)

    # Backtracking over 32 stars would not end at all.
    assert cost(MAX_KIND_CHARS) < 8 * cost(MAX_KIND_CHARS // 8) * 6


def test_a_kind_over_the_bound_is_covered_by_nothing() -> None:
    assert not CapabilitySet(["*"]).covers("x" * (MAX_KIND_CHARS + 1))


# The model: the same rules, written for reading, by trying every way in which a wildcard could match.


def model(capability: str, kind: str) -> bool:
    if kind.startswith("system/"):
        return False
    inner = capability.rstrip("*")
    parts = inner.split(":", 2)
    names_context = len(parts) == 3 and parts[2] != ""
    if "*" in capability and names_context and ".." in re.split(r"[/:\\]", kind):
        return False
    if inner != capability:
        return any(same_parts(parts, kind[:at]) for at in range(len(kind) + 1))
    if same_parts(parts, kind):
        return True
    return len(parts) == 2 and kind.count(":") >= 2 and same_parts(parts, ":".join(kind.split(":", 2)[:2]))


def same_parts(parts: list[str], text: str) -> bool:
    """TYPE, METHOD and CONTEXT are compared one by one, so that nothing crosses the colons between them."""
    found = text.split(":", 2)
    if len(found) != len(parts):
        return False
    return all(
        same_part(re.findall(r"\*\*+/|\*\*+|\*|[^*]", part), given_, at == 1, True)
        for at, (part, given_) in enumerate(zip(parts, found, strict=True))
    )


def same_part(tokens: list[str], text: str, method: bool, at_start: bool) -> bool:
    if not tokens:
        return not text
    token, rest = tokens[0], tokens[1:]
    if token[0] != "*":
        return text[:1] == token and same_part(rest, text[1:], method, token in "/:")
    cuts = range(len(text) + 1)
    if token == "*":
        whole = at_start and (not rest or rest[0] in "/:")
        if method and whole:
            return any(all(text[:at].split("/")) and same_part(rest, text[at:], method, False) for at in cuts)
        return any(not set(text[:at]) & {"/", ":"} and same_part(rest, text[at:], method, False) for at in cuts)
    if token.endswith("/"):
        if at_start and same_part(rest, text, method, True):
            return True
        return any(text[:at].endswith("/") and same_part(rest, text[at:], method, True) for at in cuts)
    return any(same_part(rest, text[at:], method, False) for at in cuts)


pieces = st.sampled_from(["mcp/", "a", "b", "/", ":", "*", "*", "**", "**/", "..", "list"])
words = st.sampled_from(["mcp/", "a", "b", "/", ":", "..", "list", "system/"])


@settings(max_examples=example_count(200, 1000), deadline=None)
@given(st.lists(pieces, min_size=1, max_size=8).map("".join), st.lists(words, max_size=8).map("".join))
@example("a:*/list", "a:b/c/list")
@example("a:*/list", "a:b/list:c")
@example("a:b:*/x", "a:b:../x")
def test_matching_agrees_with_the_model(capability: str, kind: str) -> None:
    if capability.startswith("system/"):
        return
    assert CapabilitySet([capability]).covers(kind) == model(capability, kind)


@settings(max_examples=example_count(80, 300), deadline=None)
@given(
    st.lists(st.lists(pieces, min_size=1, max_size=5).map("".join), max_size=5),
    st.lists(words, max_size=6).map("".join),
)
def test_a_set_is_the_union_of_its_capabilities(capabilities: list[str], kind: str) -> None:
    usable = [text for text in capabilities if not text.startswith("system/")]
    assert CapabilitySet(usable).covers(kind) == any(model(text, kind) for text in usable)
