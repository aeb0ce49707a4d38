"""JSON Schemas that come from outside: no fetching, no bombs, no pattern that runs for ever."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from interlock.judge.findings import Finding
from interlock.judge.regexes import judge_regex

MAX_DEPTH = 64
MAX_SUBSCHEMAS = 5_000
MAX_EXPANDED = 50_000
MAX_CHOICES = 5_000
MAX_FINDINGS = 32

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_HEADERS = """
    authorization proxy-authorization cookie set-cookie host x-api-key mcp-session-id content-length transfer-encoding
    connection origin x-forwarded-for x-forwarded-host forwarded
"""
_SENSITIVE_HEADERS = frozenset(_HEADERS.split())


def judge_schema(schema: object, where: str = "The schema") -> tuple[Finding, ...]:
    """The reasons why a schema is dangerous to hold, to compile or to run."""
    found: list[Finding] = []
    links: dict[str, list[str]] = {}
    for count, node in enumerate(_nodes(schema)):
        if node.depth > MAX_DEPTH:
            found.append(
                Finding("schema.too_deep", f"{where} nests deeper than {MAX_DEPTH} levels.", "Make it flatter.")
            )
            return tuple(found)
        if count >= MAX_SUBSCHEMAS:
            message = f"{where} has more than {MAX_SUBSCHEMAS} parts."
            return (*found, Finding("schema.too_large", message, "Make it smaller."))
        if isinstance(node.value, Mapping) and len(found) < MAX_FINDINGS:
            found.extend(_judge_object(node.value, where))
            for key in _REFERENCES:
                target = node.value.get(key)
                if isinstance(target, str):
                    links.setdefault(node.home, []).append(target)
    if _expands_beyond(links):
        message = f"{where} refers to itself so often that it grows beyond {MAX_EXPANDED} parts."
        found.append(Finding("schema.bomb", message, "Refer to each definition fewer times."))
    return tuple(found)


class _Node(NamedTuple):
    value: object
    depth: int
    home: str
    """The definition this part belongs to, as a reference would name it; `#` for the rest."""


def _nodes(schema: object) -> Iterator[_Node]:
    stack = [_Node(schema, 0, "#")]
    seen = 0
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node.value, Mapping):
            for key, value in node.value.items():
                if isinstance(value, Mapping | list | tuple):
                    definitions = key in ("$defs", "definitions") and node.home == "#" and isinstance(value, Mapping)
                    home = f"#/{key}/" if definitions else node.home
                    if node.home.endswith("/"):
                        home = node.home + str(key)
                    stack.append(_Node(value, node.depth + 1, home))
        elif isinstance(node.value, list | tuple):
            stack.extend(
                _Node(value, node.depth + 1, node.home)
                for value in node.value
                if isinstance(value, Mapping | list | tuple)
            )
        seen += 1
        if seen > MAX_SUBSCHEMAS + 1:
            return


def _judge_object(node: Mapping[object, object], where: str) -> Iterator[Finding]:
    for key in _REFERENCES:
        target = node.get(key)
        if isinstance(target, str) and not target.startswith("#"):
            message = f"{where} refers to {target[:80]!r}, which would have to be fetched."
            yield Finding(
                "schema.remote_ref", message, "Put the definition under $defs and refer to it with #/$defs/name."
            )
    pattern = node.get("pattern")
    if isinstance(pattern, str):
        yield from judge_regex(pattern)
    patterns = node.get("patternProperties")
    if isinstance(patterns, Mapping):
        for text in list(patterns)[:100]:
            yield from judge_regex(str(text))
    for key in ("enum", "oneOf", "anyOf", "allOf", "required"):
        choices = node.get(key)
        if isinstance(choices, list | tuple) and len(choices) > MAX_CHOICES:
            yield Finding(
                "schema.too_large", f"{where} lists {len(choices)} values under {key}.", f"List at most {MAX_CHOICES}."
            )
    header = node.get("x-mcp-header")
    if isinstance(header, str) and header.lower().strip() in _SENSITIVE_HEADERS:
        message = (
            f"{where} copies an argument into the header {header!r}, which decides who is asking or where it goes."
        )
        yield Finding("schema.header", message, "Use a header of the tool's own.")


def _expands_beyond(links: Mapping[str, list[str]]) -> bool:
    """Whether following every reference, again wherever it stands, exceeds the bound. Circles count once."""
    sizes: dict[str, int] = {}
    open_now: set[str] = set()
    stack = ["#"]
    while stack:
        home = stack[-1]
        if home in sizes:
            stack.pop()
            continue
        targets = [target for target in links.get(home, ()) if target != home]
        if home not in open_now:
            open_now.add(home)
            stack.extend(target for target in dict.fromkeys(targets) if target not in sizes and target not in open_now)
            continue
        sizes[home] = 1 + sum(sizes.get(target, 1) for target in targets)
        if sizes[home] > MAX_EXPANDED:
            return True
        stack.pop()
    return False
