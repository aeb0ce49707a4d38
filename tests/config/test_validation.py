"""`[servers.ID.validators.TOOL]`: what it may say, and that what is wrong is told at start, with its line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interlock.config.load import LoadedConfig

Own = Callable[..., LoadedConfig]
SERVER = '[servers.x]\ncommand = ["a"]\n'


def test_a_table_is_read_for_each_tool_and_pattern(own: Own) -> None:
    loaded = own(
        SERVER
        + """
max_result_tokens = 4000
scan_results = "flag"
tools.trust = ["search@0123456789abcdef"]
[servers.x.validators."**"]
use = ["sandbox", "none"]
[servers.x.validators.fetch]
use = ["network_restricted"]
arguments.url = ["target", "steps.*.to"]
networks = ["10.0.0.0/8"]
ports = [443]
accepts = [{ target = "https://example.com/" }]
"""
    )
    assert not loaded.problems
    server = loaded.config.servers["x"]
    assert list(server.validators) == ["**", "fetch"]
    assert server.validators["fetch"].arguments == {"url": ("target", "steps.*.to")}
    assert server.max_result_tokens == 4000


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('use = ["sanbox"]', "must be one of"),
        ('use = ["code_safty"]', 'write "code_safety"'),
        ('ignore = ["pipe"]', "is not a rule name"),
        ('ignore = ["address.metadata"]', "cannot be turned off"),
        ('networks = ["10.0.0.1/8"]', "is not a network"),
        ('hosts = ["https://example.com"]', "is not a host name"),
        ('roots = ["data"]', "is not an absolute path"),
        ('use = ["paths"]', "needs `roots`"),
        ('dialect = "klingon"', "is not one of"),
        ('arguments.command = [".a"]', "is not an argument"),
        ('arguments.comand = ["a"]', "comand"),
        ("ports = [0]", "ports"),
        ('level = "stict"', "must be one of"),
        ("nonsense = 1", "unknown setting `nonsense`"),
        ('use = ["sandbox"]\narguments.url = ["a"]', "no validator of this tool checks a url"),
        ('use = ["code_safety"]\nlevel = "unrestricted"', "checks nothing"),
    ],
)
def test_each_fault_is_an_error_with_its_line(own: Own, line: str, told: str) -> None:
    loaded = own(SERVER + f"[servers.x.validators.run]\n{line}\n")
    assert not loaded.usable
    (problem,) = loaded.problems
    assert told in str(problem)
    assert problem.line == 4 + ("\n" in line and "arguments" in line) + ("level = " in line and "\n" in line)


def test_a_bad_pattern_for_tools_is_an_error(own: Own) -> None:
    assert not own(SERVER + '[servers.x.validators.""]\nuse = ["sandbox"]\n').usable


@pytest.mark.parametrize(
    "entry", ["search", "search@", "search@12345678", "@0123456789abcdef", "search@0123456789ABCDEF"]
)
def test_trust_must_name_one_definition(own: Own, entry: str) -> None:
    loaded = own(SERVER + f'tools.trust = ["{entry}"]\n')
    assert not loaded.usable
    assert loaded.problems[0].line == 3
