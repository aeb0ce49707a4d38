"""Expressions from outside run in linear time, or not at all."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.judge.regexes import RegexError, compile_regex, judge_regex
from processor_work import work_of


@each_case(
    "regex",
    [
        *("^[a-z]+$", r"^\d{4}-\d{2}-\d{2}$", "^#([0-9a-f]{3}|[0-9a-f]{6})$", "^([a-z]+,)*[a-z]+$", "(ab){2,5}"),
        *("^(?:[a-z0-9]+(?:-[a-z0-9]+)*)$", r"^(-?\d+(\.\d+)?,)*$", "^(?!x)[a-z]+$", "[", "^AS\\d+$", "(a|b)*"),
    ],
)
def test_ordinary_expressions_pass(regex: str) -> None:
    assert judge_regex(regex) == ()


@each_case(
    ("regex", "rule"),
    [
        ("(a+)+$", "regex.nested_repeat"),
        ("^(a|a)*$", "regex.nested_repeat"),
        (r"^(\w+\d+)+$", "regex.nested_repeat"),
        ("(.*)*", "regex.nested_repeat"),
        ("([a-z]*){2,}", "regex.nested_repeat"),
        ("(a{1000}){1000}", "regex.too_complex"),
        ("a" * 5000, "regex.too_long"),
    ],
)
def test_expressions_that_run_for_ever_somewhere_are_refused(regex: str, rule: str) -> None:
    assert [finding.rule for finding in judge_regex(regex)] == [rule]


@each_case("regex", ["(a+)+$", "^(a|aa)+$", "(x+x+)+y", "^(.*a){20}$", r"^([a-zA-Z0-9]+\s?)*$"])
def test_even_those_answer_at_once(regex: str) -> None:
    compiled = compile_regex(regex)
    assert work_of(lambda: compiled.search("a" * 60_000 + "!")) < 7_000_000


@each_case("regex", ["(?=a)b", r"(a)\1", "(", "(?<!x)y", "\ud800"])
def test_what_cannot_run_safely_is_an_error_that_says_so(regex: str) -> None:
    with pytest.raises(RegexError, match="cannot be run safely"):
        compile_regex(regex)


def test_a_search_finds_what_is_there() -> None:
    assert compile_regex("^a.c$").search("abc")
    assert not compile_regex("^a.c$").search("abd")
    assert compile_regex("a").search("\ud800a")


@given(st.text("ab()[]{}*+?|^$\\.,0123:=!<", max_size=40), st.text(max_size=20))
def test_no_text_makes_the_judge_of_expressions_fail(regex: str, subject: str) -> None:
    assert judge_regex(regex) == judge_regex(regex)
    with contextlib.suppress(RegexError):
        compile_regex(regex).search(subject)
