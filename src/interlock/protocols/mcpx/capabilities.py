"""The kinds that a participant may send (MCPx, Capability-Based Access Control), compiled once per participant.

- A `*` at the end matches any suffix.
- An inner `*` that is a whole segment of METHOD matches one or more segments; elsewhere it stays within one segment.
- No inner wildcard crosses the colons that divide TYPE, METHOD and CONTEXT.
- A capability without CONTEXT covers every context of its METHOD; one with CONTEXT never covers a kind without one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from interlock.protocols.mcpx.errors import EnvelopeRefused
from interlock.protocols.mcpx.kinds import MAX_KIND_CHARS, RESERVED, WITH_METHOD, WITHOUT_METHOD, parse_kind
from interlock.protocols.patterns import Notation, PatternError, as_bytes, automaton, check_length, climbs, translate

MAX_CAPABILITIES: Final = 64
MAX_CHARACTERS: Final = 8_192
"""Characters of all capabilities of a participant. Every newcomer is sent them."""
MAX_WILDCARDS: Final = 32
"""Wildcards before the end, in all capabilities of a participant. With so many, matching a kind takes at most 5 ms."""

PROFILES: Final[Mapping[str, tuple[str, ...]]] = {
    "full-access": ("mcp/*", "chat"),
    "proposal-only": ("mcp/proposal:*", "mcp/response:*", "chat"),
    "response-only": ("mcp/response:*", "chat"),
    "read-only": ("mcp/request:resources/read", "mcp/request:*/list", "mcp/response:*", "chat"),
    "tool-only": ("mcp/request:tools/*", "mcp/response:tools/*", "chat"),
}
"""The five example sets of the specification."""


class CapabilitySet:
    """The capabilities of one participant. They never cover `system/`."""

    __slots__ = ("_partial", "_whole", "texts")

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = tuple(dict.fromkeys(texts))
        _check_bounds(self.texts)
        read = [_Capability(text) for text in self.texts]
        self._whole = _Union([one for one in read if not one.partial_context])
        self._partial = _Union([one for one in read if one.partial_context])

    def covers(self, kind: str) -> bool:
        """Whether the participant may send this kind."""
        if kind.startswith(RESERVED) or len(kind) > MAX_KIND_CHARS:
            return False
        return self._whole.matches(kind) or (self._partial.matches(kind) and not climbs(kind))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CapabilitySet) and self.texts == other.texts

    def __hash__(self) -> int:
        return hash(self.texts)

    def __repr__(self) -> str:
        return f"CapabilitySet({list(self.texts)!r})"


def check_usable(texts: Iterable[str]) -> None:
    """Refuse capabilities that no kind of this version can match. Raises PatternError.

    It checks only newly written capabilities. Those of the store and of other gateways are harmless even if useless.
    """
    for text in texts:
        type_, colon, _ = text.partition(":")
        literal, star, _ = type_.partition("*")
        if star:
            known = [one for one in (WITH_METHOD if colon else WITH_METHOD | WITHOUT_METHOD) if one.startswith(literal)]
            if literal.startswith("mcp/") and not known:
                raise PatternError(f"{text[:100]!r} can never be used: no kind begins with {literal[:80]!r}.")
            continue
        try:
            parse_kind(text.replace("*", "x"))
        except EnvelopeRefused as refusal:
            raise PatternError(f"{text[:100]!r} can never be used. {refusal.message} {refusal.fix}") from None


class _Capability:
    """One parsed capability. It covers kinds that equal it, begin with its prefix, or match its regex."""

    __slots__ = ("exact", "partial_context", "prefix", "regex")

    def __init__(self, text: str) -> None:
        check_length(text)
        if text.startswith(RESERVED):
            raise PatternError(f"{text!r} can never be used: only the gateway sends {RESERVED}* messages. Remove it.")
        inner = text.rstrip("*")
        open_end = inner != text
        parts = inner.split(":", 2)
        any_context = not open_end and len(parts) == 2
        self.partial_context = len(parts) == 3 and parts[2] != "" and "*" in text
        self.exact: str | None = None
        self.prefix: str | None = None
        self.regex: str | None = None
        if "*" in inner:
            ending = ".*" if open_end else "(?::.*)?" if any_context else ""
            pieces = zip(_PARTS, parts, strict=False)
            self.regex = ":".join(translate(part, notation) for notation, part in pieces) + ending
        elif open_end:
            self.prefix = inner
        else:
            self.exact = text
            self.prefix = text + ":" if any_context else None


class _Union:
    """Several capabilities as one lookup, one comparison of prefixes and one automaton."""

    __slots__ = ("_automaton", "_exact", "_prefixes")

    def __init__(self, capabilities: Iterable[_Capability]) -> None:
        all_ = list(capabilities)
        self._exact = frozenset(one.exact for one in all_ if one.exact is not None)
        self._prefixes = tuple(one.prefix for one in all_ if one.prefix is not None)
        regexes = [one.regex for one in all_ if one.regex is not None]
        joined = "|".join(f"(?:{regex})" for regex in regexes)
        self._automaton: Callable[[bytes], object] | None = automaton(joined) if regexes else None

    def matches(self, kind: str) -> bool:
        if kind in self._exact or kind.startswith(self._prefixes):
            return True
        return self._automaton is not None and self._automaton(as_bytes(kind)) is not None


def _check_bounds(texts: tuple[str, ...]) -> None:
    for most, found, what in (
        (MAX_CAPABILITIES, len(texts), "entries"),
        (MAX_CHARACTERS, sum(map(len, texts)), "characters"),
        (MAX_WILDCARDS, sum(len(_STARS.findall(text.rstrip("*"))) for text in texts), "wildcards before their ends"),
    ):
        if found > most:
            raise PatternError(f"A participant's capabilities have {found} {what}; the most is {most}. Use `mcp/…:*`.")


_STARS: Final = re.compile(r"\*+")
_PARTS: Final = (
    Notation("/:", barriers=":"),
    Notation("/:", barriers=":", deep_star=True),
    Notation("/:"),
)
"""The notations of TYPE, METHOD and CONTEXT."""
