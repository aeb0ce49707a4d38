"""Where commands, addresses, paths, code and SQL stand in a tool's arguments, and which judge looks at each."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import each_case
from example_counts import example_count
from interlock.judge.arguments import (
    KINDS,
    ArgumentKind,
    ArgumentPlaces,
    FoundArgument,
    TooMany,
    context_of,
    free_texts,
    kind_of_name,
    kinds_in_schema,
    words_of,
)
from interlock.judge.urls import UrlRules
from interlock.judge.validators import Rules, is_metadata, judge_metadata, judge_value, names_in

ALL: tuple[ArgumentKind, ...] = ("command", "url", "host", "path", "code", "sql")


def places(arguments: object, tool: str = "tool", kinds: tuple[ArgumentKind, ...] = ALL) -> dict[str, object]:
    found = ArgumentPlaces(kinds, context_of((tool,))).find(arguments)
    return {each.where: (each.kind, each.value) for each in found}


@each_case(
    ("name", "words"),
    [
        ("shellCommand", ("shell", "command")),
        ("URL", ("url",)),
        ("file-path", ("file", "path")),
        ("x2y", ("x", "2", "y")),
    ],
)
def test_names_are_read_in_every_spelling(name: str, words: tuple[str, ...]) -> None:
    assert words_of(name) == words


@each_case(
    ("name", "tool", "kind"),
    [
        ("command", "t", "command"),
        ("shellCommand", "t", "command"),
        ("bash_cmd", "t", "command"),
        ("callbackUrl", "t", "url"),
        ("resource-uri", "t", "url"),
        ("hostname", "t", "host"),
        ("outputDirectory", "t", "path"),
        ("code", "t", "code"),
        ("zip_code", "t", None),
        ("country_code", "t", None),
        ("script", "t", "code"),
        ("script", "run_bash", "command"),
        ("query", "web_search", None),
        ("query", "postgres_query", "sql"),
        ("sql", "t", "sql"),
        ("commander", "t", None),
        ("", "t", None),
        ("___", "t", None),
    ],
)
def test_a_name_and_the_tool_it_stands_in_tell_the_kind(name: str, tool: str, kind: str | None) -> None:
    assert kind_of_name(name, context_of((tool,))) == kind


def test_values_are_found_at_any_depth_and_in_lists() -> None:
    arguments = {
        "steps": [{"cmd": "a"}, {"run": {"command": ["b", "c"]}}],
        "urls": ["http://x", "http://y"],
        "commands": ["d e", "f"],
        "path": "/x",
        "n": 3,
    }
    assert places(arguments) == {
        "steps[0].cmd": ("command", "a"),
        "steps[1].run.command": ("command", ["b", "c"]),
        "urls[0]": ("url", "http://x"),
        "urls[1]": ("url", "http://y"),
        "commands[0]": ("command", "d e"),
        "commands[1]": ("command", "f"),
        "path": ("path", "/x"),
    }


def test_a_program_beside_its_arguments_is_one_command() -> None:
    assert places({"command": "rm", "args": ["-rf", "/"]}) == {"command": ("command", ["rm", "-rf", "/"])}
    assert places({"command": "env rm", "args": ["-rf", "/ x"]}) == {"command": ("command", "env rm -rf '/ x'")}
    assert places({"command": "rm", "args": "-rf /"}) == {"command": ("command", "rm -rf /")}
    assert places({"program": "ls", "args": []}) == {"program": ("command", "ls")}


def test_named_arguments_are_taken_at_their_word_and_end_the_guessing() -> None:
    found = ArgumentPlaces(("command", "url"), named={"command": ("steps.*.do",)}).find(
        {"command": "not this", "steps": [{"do": "this", "url": "http://x"}]}
    )
    assert [(each.kind, each.where) for each in found] == [("command", "steps[0].do"), ("url", "steps[0].url")]


@pytest.mark.parametrize("name", ["target", "Target", "TARGET"])
def test_t39_an_argument_that_was_named_counts_in_any_case(name: str) -> None:
    named = ArgumentPlaces(("path",), named={"path": ("target", "more.*.place")})
    assert [one.kind for one in named.find({name: "/etc/shadow"})] == ["path"]
    assert [one.kind for one in named.find({"More": [{"Place": "/etc/shadow"}]})] == ["path"]
    by_schema = ArgumentPlaces(("path",), by_schema={"target": "path"})
    assert [one.kind for one in by_schema.find({name: "/etc/shadow"})] == ["path"]


def test_a_text_that_is_named_is_looked_at_though_no_name_would_tell() -> None:
    (one,) = ArgumentPlaces(("url",), named={"text": ("body",)}).find({"body": "see http://10.0.0.1/", "other": "x"})
    assert (one.kind, one.where) == ("text", "body")


def test_otherwise_every_text_counts() -> None:
    found = ArgumentPlaces((), otherwise="text").find({"a": "x", "b": [{"c": "y"}], "n": 1})
    assert [(each.kind, each.where) for each in found] == [("text", "a"), ("text", "b[0].c")]


def test_more_values_than_are_looked_at_are_an_error_and_not_a_pass() -> None:
    with pytest.raises(TooMany):
        ArgumentPlaces(ALL).find({"x": ["y"] * 30_000, "command": "rm -rf /"})


def test_the_schema_tells_by_name_format_and_description() -> None:
    schema = {
        "type": "object",
        "properties": {
            "where": {"type": "string", "format": "uri"},
            "query": {"type": "string", "description": "A SQL statement."},
            "steps": {"type": "array", "items": {"$ref": "#/$defs/step"}},
            "either": {"anyOf": [{"type": "object", "properties": {"cmd": {"type": "string"}}}, {"type": "null"}]},
        },
        "$defs": {"step": {"type": "object", "properties": {"code": {"type": "string"}}}},
    }
    assert kinds_in_schema(schema) == {
        "where": "url",
        "query": "sql",
        "steps.*.code": "code",
        "either.cmd": "command",
    }
    assert free_texts({"properties": {"a": {"type": "string"}, "b": {"enum": ["x"]}, "c": {"type": "integer"}}}) == 1


def test_a_schema_that_refers_to_itself_is_read_within_bounds() -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"properties": {"a": {"$ref": "#/$defs/a"}}}}}
    assert kinds_in_schema(schema) == {}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(json_values, json_values)
@settings(deadline=None, max_examples=example_count(60, 200))
def test_no_arguments_and_no_schema_make_it_fail(arguments: Any, schema: Any) -> None:
    by_schema = kinds_in_schema(schema)
    free_texts(schema)
    for found in ArgumentPlaces(ALL, by_schema=by_schema, otherwise="text").find(arguments):
        assert isinstance(found.value, str | list)
        for validator in KINDS:
            judge_value(validator, found, Rules(roots=("/srv",)))


@given(st.lists(st.sampled_from(["a", "b", "steps", "cmd"]), max_size=6), st.sampled_from(["command", "cmd", "argv"]))
@settings(deadline=None)
def test_a_command_is_found_however_deep_it_is_buried(path: list[str], name: str) -> None:
    value: object = {name: "rm"}
    for at, key in enumerate(path):
        value = {key: value} if at % 2 else {key: [value]}
    assert len(ArgumentPlaces(ALL).find(json.loads(json.dumps(value)))) == 1


def found(kind: ArgumentKind, value: str | list[str], **beside: object) -> FoundArgument:
    return FoundArgument(kind, "x", value, beside)


@each_case(
    ("validator", "value", "rule"),
    [
        ("sandbox", found("command", "a; b"), "shell.sequence"),
        ("sandbox", found("command", ["rm", "-rf", "/"]), "shell.recursive_delete"),
        ("readonly", found("sql", "drop table x"), "sql.writes"),
        ("readonly", found("code", "open('x', 'w')"), "code."),
        ("network_restricted", found("url", "http://[::1]/"), "address.loopback"),
        ("network_restricted", found("host", "::1"), "address.loopback"),
        ("network_restricted", found("host", "10.0.0.1:8080"), "address.private"),
        ("network_restricted", found("command", ["curl", "http://10.0.0.1/"]), "address.private"),
        ("network_restricted", found("text", "go to http://127.1/ now"), "address.loopback"),
        ("code_safety", found("code", "import subprocess"), "code.import"),
        ("code_safety", found("code", "import subprocess", language="perl"), "code.import"),
        ("paths", found("path", "../../etc/passwd"), "path.traversal"),
    ],
)
def test_each_validator_sets_the_right_judge_on_each_kind(validator: str, value: FoundArgument, rule: str) -> None:
    findings = judge_value(validator, value, Rules(roots=("/srv",)))
    assert findings
    assert findings[0].rule.startswith(rule)


def test_a_call_says_which_language_its_code_is_in_only_where_it_is_asked() -> None:
    shell = found("code", "rm -rf /", language="bash")
    assert judge_value("code_safety", shell, Rules(tells_language=True))[0].rule == "shell.recursive_delete"
    disguised = found("code", "import subprocess", language="perl")
    assert judge_value("code_safety", disguised, Rules())[0].message == "Blocked import: 'subprocess'"


def test_an_ignored_rule_is_let_go_but_never_a_metadata_service() -> None:
    ignored = Rules(ignored=("shell.pipe", "address.metadata", "address.private"))
    assert judge_value("sandbox", found("command", "ls | wc"), ignored) == ()
    assert judge_value("network_restricted", found("url", "http://10.0.0.1/"), ignored) == ()
    metadata = judge_value("network_restricted", found("url", "http://169.254.169.254/"), ignored)
    assert is_metadata(metadata[0])
    allowed = Rules(urls=UrlRules(networks=("169.254.0.0/16",)))
    assert judge_value("network_restricted", found("url", "http://169.254.169.254/"), allowed)


@each_case("kind", ["url", "host", "command", "code", "text"])
def test_a_metadata_service_is_seen_in_every_kind_of_value(kind: ArgumentKind) -> None:
    value = {"host": "169.254.169.254", "url": "http://169.254.169.254/x"}.get(kind, "curl http://169.254.169.254/x")
    assert judge_metadata(found(kind, value))
    assert not judge_metadata(found(kind, "93.184.216.34" if kind == "host" else "https://example.com/"))


def test_names_to_be_resolved_are_named_once() -> None:
    assert names_in(found("url", "https://example.com/")) == ("example.com",)
    assert names_in(found("url", "https://93.184.216.34/")) == ()
    assert names_in(found("text", "http://a.example/ http://a.example/x http://b.example/")) == (
        "a.example",
        "b.example",
    )


def test_arguments_whose_names_differ_only_in_case_have_the_kinds_of_both() -> None:
    for names in (("run", "RUN"), ("RUN", "run")):
        described = ("A shell command to run", "The URL to open")
        both = zip(names, described, strict=True)
        schema = {"properties": {name: {"type": "string", "description": text} for name, text in both}}
        found = ArgumentPlaces(ALL, by_schema=kinds_in_schema(schema)).find({"run": "rm -rf ~"})
        assert {each.kind for each in found} == {"command", "url"}
        command, path = ((names[0],), (names[1],))
        listed = ArgumentPlaces(ALL, named={"command": command, "path": path}).find({"Run": ["rm", "-rf"]})
        assert {(each.kind, str(each.value)) for each in listed} == {
            ("command", "['rm', '-rf']"), ("path", "rm"), ("path", "-rf")
        }  # fmt: skip
