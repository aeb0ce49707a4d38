"""How far a setting holds: an assignment or a `cd` in a part of a text that may not run, or that runs in a process of
its own, says nothing about the commands behind that part.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from interlock.judge.shell.script import Script, Word
from interlock.judge.shell.values import INSERTED

if TYPE_CHECKING:
    from tree_sitter import Node

_PROCESSES = frozenset({"subshell", "command_substitution", "process_substitution"})
_BRANCHES = frozenset(
    {"while_statement", "for_statement", "c_style_for_statement", "case_item", "elif_clause", "else_clause"}
)
_TRANSPARENT = frozenset({"redirected_statement", "variable_assignments"})
_LEAVES = re.compile(rb"exit(?:\s+[\w$?]+)?")
"""No `return`: outside of functions, which are refused, the shell goes on behind it."""


class Scope(NamedTuple):
    """Where settings of a part of a text end, as offsets."""

    sure: int
    """Up to here, an assignment of the part was made."""
    chain: int
    """Up to here, the part succeeded: commands behind `&&` run only then."""
    process: int
    """The end of the process that the part runs in."""


def scope_within(node: Node, children: Sequence[Node], at: int, scope: Scope) -> Scope:
    """The scope of one child of a node that has a scope."""
    child, kind = children[at], node.type
    ends_with = children[at + 1].type if child is not children[-1] else ""
    if kind == "pipeline" or ends_with == "&":
        return Scope(child.end_byte, child.end_byte, child.end_byte)
    if kind in _PROCESSES:
        return Scope(node.end_byte, child.end_byte, node.end_byte)
    if kind == "list":
        return _scope_in_list(children, at, scope)
    if kind in _TRANSPARENT:
        return scope
    sure = node.end_byte if kind in _BRANCHES else scope.sure
    if kind == "if_statement":
        sure = next((each.start_byte for each in children if each.type in _BRANCHES), node.end_byte)
    return Scope(sure, child.end_byte, scope.process)


def _scope_in_list(children: Sequence[Node], at: int, scope: Scope) -> Scope:
    child = children[at]
    operators = {each.type for each in children if not each.is_named}
    if operators != {"&&"}:
        leaves = at == 0 and _LEAVES.fullmatch(children[-1].text or b"") is not None  # `cd x || exit`
        return Scope(scope.sure if at == 0 else child.end_byte, scope.sure if leaves else child.end_byte, scope.process)
    return Scope(scope.sure if at == 0 else scope.chain, scope.chain, scope.process)


def unset_names(script: Script) -> set[str]:
    """Variables that a word reads where the text may not have set them: before it does, or behind a part that may."""
    if not script.settings:
        return set()
    names = {setting.name for setting in script.settings}
    reads = [(word.start, -1, name) for word in _words(script) for name in _names_in(word.template) if name in names]
    if not reads:
        return set()
    until: dict[str, int] = {}
    found: set[str] = set()
    for start, end, name in sorted([*reads, *((each.start, each.end, each.name) for each in script.settings)]):
        if end >= 0 and end > until.get(name, 0):
            until[name] = end
        elif end < 0 and start >= until.get(name, 0):
            found.add(name)
    return found


def _names_in(template: str) -> list[str]:
    return [name.partition("[")[0] for name in INSERTED.findall(template)]


def _words(script: Script) -> list[Word]:
    """The words with expansions in them."""
    words = [word for command in script.commands for word in command.words]
    words += [word for command in script.commands for _, word in command.assignments]
    words += [word for _, word in script.assignments]
    words += [word for test in script.tests for word in test]
    words += [redirect.target for redirect in script.redirects if redirect.target is not None]
    words += [value.words[0] for value in script.values if value.change]
    return [word for word in words if word.template]
