"""The one meaning of a pattern, against a slow and obvious model of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.protocols.patterns import (
    CAPABILITY_PATHS,
    CHANNELS,
    FEATURE_SETS,
    MAX_PATTERN_CHARS,
    NAMES,
    Notation,
    Pattern,
    PatternError,
    PatternSet,
    compile_capability_path,
    compile_pattern,
)
from processor_work import work_of


@each_case(
    ("pattern", "subject", "matches"),
    [
        ("github__*", "github__merge", True),
        ("github__*", "github__a/b", False),
        ("*", "a:b", False),
        ("*", "", True),
        ("**", "a/b:c", True),
        ("memory.*", "memory.a.b", True),
        ("discord:acme/*", "discord:acme/general", True),
        ("discord:acme/*", "discord:acme/a/b", False),
        ("#dev-*", "#dev-x", True),
        ("/project/**", "/project/a/b", True),
        ("/project/**", "/project", False),
        ("**/.env", ".env", True),
        ("**/.env", "a/b/.env", True),
        ("**/.env", "a.env", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("A", "a", False),
        ("a?", "ab", False),
        ("[ab]", "a", False),
        ("(?i)x", "X", False),
        ("a.c", "abc", False),
        ("*", "\ud800", True),
    ],
)
def test_patterns_mean_what_the_table_says(pattern: str, subject: str, matches: bool) -> None:
    assert compile_pattern(pattern).matches(subject) is matches


@each_case(
    ("notation", "pattern", "subject", "matches"),
    [
        (FEATURE_SETS, "memory.*", "memory.a.b", True),
        (FEATURE_SETS, "memory.*", "memory", False),
        (FEATURE_SETS, "*.read", "memory.read", True),
        (FEATURE_SETS, "*.read", "a.b.read", False),
        (CAPABILITY_PATHS, "memory.*", "memory.read", True),
        (CAPABILITY_PATHS, "memory.*", "memory.a.b", False),
        (CAPABILITY_PATHS, "memory.**", "memory.a.b", True),
        (CAPABILITY_PATHS, "a/*", "a/b/c", True),
        (CHANNELS, "tool.*", "tool.request", True),
        (CHANNELS, "tool.*", "tool.request.done", False),
        (NAMES, "files__*", "files__read__all", True),
    ],
)
def test_each_notation_has_its_own_separators(notation: Notation, pattern: str, subject: str, matches: bool) -> None:
    assert compile_pattern(pattern, notation).matches(subject) is matches


@each_case("notation", [NAMES, CHANNELS, CAPABILITY_PATHS, FEATURE_SETS])
def test_a_star_at_the_end_of_a_denial_matches_at_any_depth(notation: Notation) -> None:
    separator = notation.separators[0]
    deeper = separator.join(["secrets", "a", "b"])
    assert not PatternSet(["**"], deny=[f"secrets{separator}*"], notation=notation).allows(deeper)
    assert PatternSet(["**"], deny=[f"*{separator}b"], notation=notation).allows(deeper)


@each_case(
    ("pattern", "subject", "matches"),
    [
        ("memory.*", "memory.a", True),
        ("memory.*", "memory.a.b", True),
        ("memory.*", "memory", False),
        ("memory.*", "memoryx.a", False),
        ("memory.*.b", "memory.a.b", True),
        ("memory.*.b", "memory.a.a.b", False),
        ("memory.**.b", "memory.a.a.b", True),
        ("*", "a.b", True),
        ("a:b.*", "a:b.c/d", True),
    ],
)
def test_a_feature_set_pattern_ends_its_segments_at_dots_and_is_open_at_its_end(
    pattern: str, subject: str, matches: bool
) -> None:
    assert compile_pattern(pattern, FEATURE_SETS).matches(subject) is matches


@each_case(
    ("path", "subject", "matches"),
    [("a.*", "a.b", True), ("a.*", "a.b.c", False), ("*", "a", True), ("*", "a.b", False), ("*.b", "a.b", True)],
)
def test_a_star_in_a_capability_path_is_one_segment(path: str, subject: str, matches: bool) -> None:
    assert compile_capability_path(path).matches(subject) is matches


@each_case("path", ["a.**", "**", "a*", "a.b*.c", ""])
def test_a_capability_path_has_no_other_wildcard(path: str) -> None:
    with pytest.raises(PatternError):
        compile_capability_path(path)


def test_a_denial_of_names_reaches_any_depth_and_says_which_pattern_decided() -> None:
    patterns = PatternSet(allow=["**"], deny=["discord:admin*"])
    assert not patterns.allows("discord:admin/deep:er")
    assert patterns.allows("discord:other/admin")
    assert patterns.deciding("discord:admin/x") == (False, "discord:admin*")


def test_deny_wins_and_nothing_is_allowed_that_nobody_named() -> None:
    patterns = PatternSet(allow=["/project/**"], deny=["**/.env"])
    assert patterns.deciding("/project/a") == (True, "/project/**")
    assert patterns.deciding("/project/.env") == (False, "**/.env")
    assert patterns.deciding("/other") == (False, None)


def test_a_wildcard_never_vouches_for_a_path_that_climbs() -> None:
    assert not PatternSet(["/project/**"]).allows("/project/../etc/passwd")
    assert PatternSet(["/a/../b"]).allows("/a/../b")
    assert PatternSet(["/project/**"]).allows("/project/a..b/...")


@each_case("climbing", ["..", "%2e%2e", ".%2E", "x/..", "x%2f..", "..%5Cx", "x\\..", "a:.."])
def test_climbing_is_seen_in_every_spelling(climbing: str) -> None:
    assert not PatternSet(["/project/**"]).allows(f"/project/{climbing}/etc")
    assert not PatternSet(["/project/**"]).allows(f"/project/{climbing}")


@each_case("pattern", ["", "x" * (MAX_PATTERN_CHARS + 1)])
def test_a_pattern_that_cannot_be_used_says_so_when_it_is_made(pattern: str) -> None:
    with pytest.raises(PatternError):
        Pattern(pattern)


@each_case("pattern", ["*a" * 400 + "b", "**/" * 300 + "x", "**a" * 300 + "b", "*" * 1000 + "b"])
def test_no_pattern_takes_long_on_any_subject(pattern: str) -> None:
    compiled = compile_pattern(pattern)
    assert not compiled.matches("a/" * 32_000)
    assert work_of(lambda: compiled.matches("a/" * 32_000)) < 7_000_000


def slow_match(pattern: str, subject: str) -> bool:
    """The same meaning, written for reading: try every way a star could match."""
    if not pattern:
        return not subject
    if pattern.startswith("**/") and slow_match(pattern[3:], subject):
        return True
    if pattern.startswith("**"):
        rest = pattern.lstrip("*")
        return any(slow_match(rest, subject[at:]) for at in range(len(subject) + 1))
    if pattern[0] == "*":
        end = next((at for at, char in enumerate(subject) if char in "/:"), len(subject))
        return any(slow_match(pattern[1:], subject[at:]) for at in range(end + 1))
    return bool(subject) and pattern[0] == subject[0] and slow_match(pattern[1:], subject[1:])


@given(
    st.lists(st.sampled_from(["a", "b", "*", "/", "/**/", ":", ".", "a**"]), min_size=1, max_size=6).map("".join),
    st.text("ab/:.", max_size=8),
)
def test_matching_agrees_with_the_model(pattern: str, subject: str) -> None:
    if "***" in pattern or "**" in pattern.replace("/**/", "//").replace("a**", "a"):
        return  # the model only knows ** where it is written on purpose
    assert compile_pattern(pattern).matches(subject) == slow_match(pattern, subject)


@given(st.text(min_size=1, max_size=60), st.text(max_size=60))
def test_no_text_makes_a_pattern_fail(pattern: str, subject: str) -> None:
    compile_pattern(pattern).matches(subject)


@given(st.text(min_size=1, max_size=40).filter(lambda text: "*" not in text))
def test_a_pattern_without_stars_matches_itself_alone(text: str) -> None:
    assert compile_pattern(text).matches(text)
    assert not compile_pattern(text).matches(text + "x")
