"""Every refusal names its rule, shows the part it is about and says what to do instead."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from cases import each_case
from example_counts import example_count
from interlock.judge.arguments import ArgumentKind, FoundArgument
from interlock.judge.validators import Rules, judge_value

REFUSED: list[tuple[str, ArgumentKind, str, str]] = [
    ("sandbox", "command", "ls | wc", "|"),
    ("sandbox", "command", "cat /etc/shadow", "cat /etc/shadow"),
    ("readonly", "command", "cat a; touch b", "touch b"),
    ("readonly", "sql", "select 1; DELETE from t", "DELETE"),
    ("readonly", "sql", "select 1, pg_sleep(9)", "pg_sleep"),
    ("readonly", "sql", "explain analyze select pg_sleep(9)", "pg_sleep"),
    ("readonly", "sql", "select from where (", "select from where ("),
    ("network_restricted", "url", "http://user@10.0.0.1:8080/x", "10.0.0.1"),
    ("network_restricted", "url", "https://example.com:22/", "22"),
    ("network_restricted", "url", "gopher://example.com", "gopher:"),
    ("network_restricted", "url", "http://a:b@localhost", "localhost"),
    ("network_restricted", "url", "http://exa mple", "http://exa mple"),
    ("network_restricted", "url", "10.0.0.1/x", "10.0.0.1/x"),
    ("network_restricted", "host", "10.0.0.1", "10.0.0.1"),
    ("network_restricted", "host", "::1", "::1"),
    ("network_restricted", "text", "see http://[::1]/ now", "http://[::1]/"),
    ("network_restricted", "url", "https://example.com/a\tb", "\t"),
    ("code_safety", "code", "import json\nimport subprocess", "import subprocess"),
    ("code_safety", "code", "x = 1\neval(\n)\n", "eval"),
    ("code_safety", "code", "x = 1\n%run a.py\ny = 2", "%run a.py"),
    ("paths", "path", "a/../../b", ".."),
    ("paths", "path", "/etc/hosts", "/etc/hosts"),
    ("paths", "path", "a\x00b", "\x00"),
]


@each_case(("validator", "kind", "value", "part"), REFUSED)
def test_the_offending_part_is_known(validator: str, kind: ArgumentKind, value: str, part: str) -> None:
    found = judge_value(validator, FoundArgument(kind, "x", value, {}), Rules(roots=("/srv",)))
    assert part in {value[slice(*each.span)] for each in found if each.span is not None}
    assert all(each.span is not None and each.rule and each.message for each in found)


KINDS: list[tuple[str, ArgumentKind]] = [
    ("network_restricted", "url"), ("network_restricted", "host"), ("network_restricted", "text"), ("paths", "path"),
    ("readonly", "sql"),
]  # fmt: skip


@settings(deadline=None, max_examples=example_count(50, 150))
@given(
    text=st.one_of(
        st.text(max_size=40),
        st.lists(st.sampled_from(["http://", "@", "127.1", ":", "/", "..", "[", "a"])).map("".join),
    )
)
@example(text="http://\u00a0@")
@example(text="\ud800")
def test_a_part_is_always_a_part_of_the_value(text: str) -> None:
    for validator, kind in KINDS:
        for each in judge_value(validator, FoundArgument(kind, "x", text, {}), Rules(roots=("/srv",))):
            if each.span is not None:
                start, end = each.span
                assert 0 <= start <= end <= len(text)
