"""Scopes of 0.4: which label is decided on, and how."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.protocols.mcpl.feature_sets import ScopeRules
from interlock.protocols.mcpl.scopes import agreed_label, decide, derive_label, plain, shown
from interlock.wire.errors import Fault

FILES = ScopeRules(("/project/**", "/tmp/**"), ("**/.env", "**/secrets/**"))
DISCORD = ScopeRules(("#general", "#dev-*", "discord:acme/*"), ("#admin-*", "#dev-admin*"))


@each_case(
    ("rules", "label", "outcome"),
    [
        (FILES, "/project/src/main.ts", "allow"),
        (FILES, "/etc/hosts", "ask"),
        (FILES, "/project/.env", "deny"),
        (FILES, "/project/.ENV", "deny"),
        (FILES, "/project/Secrets/key", "deny"),
        (ScopeRules(("/**",), ("/Private/**",)), "/private/key", "deny"),
        (FILES, "/project/a/.env", "deny"),
        (FILES, "/project/.env/", "deny"),
        (FILES, "/project//.env", "deny"),
        (FILES, "/project/./.env/.", "deny"),
        (FILES, "/project/%2eenv", "deny"),
        (FILES, "/project/%25252eenv", "deny"),
        (FILES, "/project/secrets/key", "deny"),
        (FILES, "/project/secrets/", "deny"),
        (FILES, "/project/secrets", "deny"),
        (FILES, "/project/secretst", "allow"),
        (FILES, "\\project\\secrets\\key", "deny"),
        (FILES, "/project/../etc/hosts", "ask"),
        (FILES, "/project", "ask"),
        (FILES, "/projects/x", "ask"),
        (FILES, "/project/a\x00.txt", "deny"),
        (FILES, "/Project/x", "ask"),
        (DISCORD, "#general", "allow"),
        (DISCORD, "#general-2", "ask"),
        (DISCORD, "#dev-tools", "allow"),
        (DISCORD, "#dev-a/b", "ask"),
        (DISCORD, "#dev-a:b", "ask"),
        (DISCORD, "#dev-admin", "deny"),
        (DISCORD, "#admin-x", "deny"),
        (DISCORD, "#admin-x/deeper:still", "deny"),
        (DISCORD, "discord:acme/general", "allow"),
        (DISCORD, "discord:acme/a/b", "ask"),
        (DISCORD, "discord:acmes/a", "ask"),
        (ScopeRules(), "anything", "ask"),
        (ScopeRules(("a",), ("a",)), "a", "deny"),
        (ScopeRules(("",), ()), "a", "ask"),
        (ScopeRules(("a",), ("",)), "a", "deny"),
    ],
)
def test_the_blacklist_wins_and_what_no_list_names_is_asked(rules: ScopeRules, label: str, outcome: str) -> None:
    assert decide(rules, label).outcome == outcome


def test_a_denial_says_why_on_one_line() -> None:
    assert decide(FILES, "/project/a\x00.txt").why == "the label has control characters"
    assert decide(FILES, "/project/.env").why == "blacklist **/.env"
    assert shown("/a\x00\n" + "b" * 300).isprintable()
    assert len(shown("b" * 300)) == 200


@given(st.text("ab/.", max_size=12))
def test_a_path_has_one_plain_spelling(label: str) -> None:
    assert plain(plain(label)) == plain(label)
    assert "//" not in plain(label)


@each_case(
    ("template", "arguments", "label"),
    [
        ("{path}", {"path": "/project/a"}, "/project/a"),
        ("file:{path}", {"path": "/a:b"}, "file:/a:b"),
        ("discord:{guild}/{channel}", {"guild": "acme", "channel": "general"}, "discord:acme/general"),
        ("{address.channel}", {"address": {"channel": "#x"}}, "#x"),
        ("issue:{number}", {"number": 7}, "issue:7"),
        ("discord:{guild}/{channel}", {"guild": "acme", "channel": "a/b"}, "discord:acme/a/b"),
    ],
)
def test_a_label_follows_from_the_arguments(template: str, arguments: dict[str, object], label: str) -> None:
    assert derive_label(template, arguments) == label
    assert agreed_label(template, arguments, label) == label
    assert agreed_label(template, arguments, None) == label
    with pytest.raises(Fault):
        agreed_label(template, arguments, label + "x")


@each_case(
    ("template", "arguments"),
    [
        ("/project/x", {"path": "/etc/hosts"}),
        ("{path}", {}),
        ("{path}", {"path": ""}),
        ("{path}", {"path": True}),
        ("{path}", {"path": None}),
        ("{path}", {"path": ["/project/x"]}),
        ("{a.b}", {"a": "x"}),
        ("discord:{guild}/{channel}", {"guild": "acme/general:", "channel": "x"}),
        ("discord:{guild}/{channel}", {"guild": "acme"}),
        ("{path}", {"path": "/project/x", "Path": "/etc/hosts"}),
        ("{address.channel}", {"address": {"channel": "#x", "CHANNEL": "#y"}}),
        ("{ask}", {"ask": "x", "aſK": "y"}),
        ("{path}", {"path": "/project/x", **{f"n{number}": 1 for number in range(1_000)}}),
    ],
)
def test_arguments_that_do_not_make_a_label_are_refused(template: str, arguments: dict[str, object]) -> None:
    with pytest.raises(Fault) as refused:
        derive_label(template, arguments)
    assert refused.value.name == "INVALID_PARAMS"


def test_without_a_template_the_label_must_be_given() -> None:
    assert agreed_label(None, {}, "#general") == "#general"
    with pytest.raises(Fault):
        agreed_label(None, {}, None)
