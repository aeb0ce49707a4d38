"""Scopes (MCPL 0.4, Scoped Access): labels, how they are derived, and the rules that decide about them.

A server's label is only a claim. If a template exists, the hub derives the label from the arguments, and refuses a
claim that differs. The blacklist wins. A person decides about a label that neither list names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import unquote

import msgspec

from interlock.protocols.mcpl.decoding import Line, Name, Object, Value
from interlock.protocols.mcpl.feature_sets import ScopeRules
from interlock.protocols.patterns import DENIED_NAMES, PatternError, PatternSet, compile_pattern
from interlock.wire import visible_text
from interlock.wire.errors import Fault

DECODED: Final = 3
"""Rounds of percent-decoding after which a denied name is searched for."""
MAX_MEMBERS: Final = 1_000
"""Members beside an argument that a label uses. The name of the argument is compared with each."""


class AmbiguousArgument(Fault):
    """An argument of a label also exists in another case. Some servers would read that one instead."""


class Scope(Value, frozen=True):
    """A label for matching and display, and a payload that goes back to the server."""

    label: Name
    payload: Object = msgspec.field(default_factory=dict)


class ElevateParams(Value, frozen=True):
    """The params of `scope/elevate`."""

    feature_set: Name
    scope: Scope


class ElevateResult(Value, frozen=True):
    """The answer to `scope/elevate`."""

    approved: bool
    payload: Object = msgspec.field(default_factory=dict)
    reason: Line | None = None


class ScopeDecision(msgspec.Struct, frozen=True):
    """The verdict of the rules on a label. With `ask`, a person decides."""

    outcome: Literal["allow", "deny", "ask"]
    pattern: str | None = None
    """The pattern that decided; None for a label that was denied without a pattern."""

    @property
    def why(self) -> str:
        """Why a label is denied."""
        return "the label has control characters" if self.pattern is None else f"blacklist {self.pattern}"


def decide(rules: ScopeRules, label: str) -> ScopeDecision:
    """The verdict of the rules on a label: blacklist, then whitelist, then ask (MCPL 0.4, Host Evaluation)."""
    decoded = _decoded(label)
    # Many file systems and servers ignore case, so denials do, too.
    spellings = {made.casefold() for each in decoded for made in (each, plain(each), plain(each.replace("\\", "/")))}
    # A folder is the same with and without a final slash, so a denial of its contents also denies the folder.
    spellings |= {f"{each}/" for each in spellings}
    if any(_CONTROL.search(each) for each in decoded):
        return ScopeDecision("deny")
    for text in rules.blacklist:
        try:
            pattern = compile_pattern(text.casefold(), DENIED_NAMES)
        except PatternError:
            # An invalid pattern in the blacklist denies everything.
            return ScopeDecision("deny", text)
        if any(pattern.matches(spelling) for spelling in spellings):
            return ScopeDecision("deny", text)
    for text in rules.whitelist:
        try:
            allowed = all(PatternSet((text,)).allows(spelling) for each in decoded for spelling in (each, plain(each)))
        except PatternError:
            continue
        if allowed:
            return ScopeDecision("allow", text)
    return ScopeDecision("ask")


def plain(label: str) -> str:
    """The label without empty and `.` segments and without a final slash, so that each path has one spelling."""
    if "/" not in label:
        return label
    first, *rest = label.split("/")
    kept = [segment for segment in rest if segment not in ("", ".")]
    return "/".join([first, *kept]) or "/"


def shown(label: str) -> str:
    """The label for a message: bounded, on one line, with escaped control characters."""
    return visible_text.plain(label[:200]).replace("\n", "\\n")


def derive_label(template: str, arguments: Mapping[str, object]) -> str:
    """Fill a template with arguments. Raises INVALID_PARAMS if they do not fit it.

    `{path}` is an argument, `{address.channel}` a member of one. Only the last value may contain `/` or `:`, so that no
    value can imitate other segments.
    """
    places = list(_PLACE.finditer(template))
    if not places:
        raise Fault("INVALID_PARAMS", "the scope's template names no argument, so it says nothing of a call")
    made, end = "", 0
    for place in places:
        value = _value(place[1], arguments)
        if place.end() != len(template) and ("/" in value or ":" in value):
            raise _unusable(place[1], "holds a separator")
        made += template[end : place.start()] + value
        end = place.end()
    return made + template[end:]


def agreed_label(template: str | None, arguments: Mapping[str, object], claimed: str | None) -> str:
    """The label to decide about. Raises INVALID_PARAMS if the claimed label is missing or contradicts the arguments."""
    if template is None:
        if claimed is None:
            raise Fault("INVALID_PARAMS", "scope.label: the field is required", data={"field": "scope.label"})
        return claimed
    derived = derive_label(template, arguments)
    if claimed is not None and claimed != derived:
        raise Fault(
            "INVALID_PARAMS",
            "scope.label: disagrees with the arguments",
            data={"field": "scope.label", "derived": derived},
        )
    return derived


def _decoded(label: str) -> list[str]:
    """The label before and after each round of percent-decoding, because a server may decode a URI repeatedly."""
    found = [label]
    while len(found) <= DECODED and (further := unquote(found[-1])) != found[-1]:
        found.append(further)
    return found


_PLACE = re.compile(r"\{([A-Za-z0-9_.-]+)\}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def _value(path: str, arguments: Mapping[str, object]) -> str:
    node: object = arguments
    for name in path.split("."):
        if isinstance(node, Mapping):
            _check_spelling(path, name, node)
        if not isinstance(node, Mapping) or name not in node:
            raise _unusable(path, "is missing")
        node = node[name]
    if isinstance(node, bool) or not isinstance(node, str | int) or node == "":
        raise _unusable(path, "is neither a text nor a number")
    return str(node)


def _check_spelling(path: str, name: str, members: Mapping[str, object]) -> None:
    """Refuse a name that also exists in another case. Raises `AmbiguousArgument`."""
    folded, size = name.casefold(), len(name)
    if len(members) > MAX_MEMBERS:
        why = f"is one of more than {MAX_MEMBERS} members"
    elif any(len(key) == size and key != name and key.casefold() == folded for key in members):
        why = "is there in another case"
    else:
        return
    message = f"arguments.{path} {why}, and the scope's label is made of it"
    raise AmbiguousArgument("INVALID_PARAMS", message, data={"field": path})


def _unusable(path: str, why: str) -> Fault:
    return Fault("INVALID_PARAMS", f"arguments.{path} {why}, and the scope's label is made of it", data={"field": path})
