"""The pattern matcher for grants, scopes, feature sets, channels, tool lists and MCPx capabilities.

`*` matches within one segment, `**` across segments, and `**/` also matches the empty text. Every other character means
itself, case counts, and deny wins. A `Notation` defines the segments of a kind of subject. Matching takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

import msgspec

MAX_PATTERN_CHARS = 1024
MAX_SUBJECT_CHARS = 1_048_576


class Notation(msgspec.Struct, frozen=True):
    """The separators of one kind of subject, and how far its wildcards reach."""

    separators: str
    """Each of these characters ends a segment."""
    barriers: str = ""
    """No wildcard matches one of these separators, `**` included."""
    open_end: bool = False
    """A `*` at the end matches any suffix."""
    deep_star: bool = False
    """A `*` that is a whole segment matches one or more segments."""


NAMES: Final = Notation("/:")
"""Exposed tool names, and subjects without a notation of their own. `__` is not a separator."""
DENIED_NAMES: Final = Notation("/:", open_end=True)
"""Entries of deny lists: a `*` at the end matches at any depth."""
CHANNELS: Final = Notation(".")
"""Event channels."""
CAPABILITY_PATHS: Final = Notation(".")
"""Capability paths of MCPL 0.5: a `*` at the end is exactly one segment."""
FEATURE_SETS: Final = Notation(".", open_end=True)
"""Feature sets of MCPL 0.4: `memory.*` matches everything below `memory.`"""


class PatternError(ValueError):
    """The pattern cannot be used; the message says why."""


class Pattern:
    """A pattern, compiled once."""

    __slots__ = ("_automaton", "_exact", "_prefix", "text")

    def __init__(self, text: str, notation: Notation = NAMES) -> None:
        check_length(text)
        open_end = notation.open_end and text.endswith("*")
        meant = text.rstrip("*") + "**" if open_end else text
        self.text = text
        self._exact = "*" not in meant
        self._prefix = meant.partition("*")[0]
        anything_after_prefix = meant == self._prefix + "**" and not notation.barriers
        self._automaton = None if self._exact or anything_after_prefix else automaton(translate(meant, notation))

    def matches(self, subject: str) -> bool:
        if self._exact:
            return subject == self.text
        if len(subject) > MAX_SUBJECT_CHARS or not subject.startswith(self._prefix):
            return False
        return self._automaton is None or self._automaton(as_bytes(subject)) is not None

    @property
    def literal(self) -> bool:
        """Whether the pattern matches nothing but its own text."""
        return self._exact

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"


class PatternSet:
    """Patterns of allowed and denied names. Deny wins, and a name without a matching pattern is denied."""

    __slots__ = ("_allow", "_deny")

    def __init__(self, allow: Iterable[str], deny: Iterable[str] = (), notation: Notation = NAMES) -> None:
        self._allow = tuple(compile_pattern(text, notation) for text in allow)
        # An operator who denies `secrets/*` also means deeper paths.
        at_any_depth = msgspec.structs.replace(notation, open_end=True)
        self._deny = tuple(compile_pattern(text, at_any_depth) for text in deny)

    def allows(self, subject: str) -> bool:
        return self.deciding(subject)[0]

    def deciding(self, subject: str) -> tuple[bool, str | None]:
        """Whether the subject is allowed, and the pattern that decided; None if no pattern matches."""
        for pattern in self._deny:
            if pattern.matches(subject):
                return False, pattern.text
        climbing = climbs(subject)
        for pattern in self._allow:
            if pattern.matches(subject) and not (climbing and not pattern.literal):
                return True, pattern.text
        return False, None


@lru_cache(maxsize=4096)
def compile_pattern(text: str, notation: Notation = NAMES) -> Pattern:
    """Compile a pattern. Equal texts share one compiled pattern. Raises PatternError."""
    return Pattern(text, notation)


def compile_capability_path(text: str) -> Pattern:
    """An entry of a capability grant (MCPL 0.5): a segment is a name or `*`. Raises PatternError."""
    if any("*" in segment and segment != "*" for segment in text.split(".")):
        raise PatternError("In a capability path `*` stands for one whole segment, and nothing for several.")
    return compile_pattern(text, CAPABILITY_PATHS)


def check_length(text: str) -> None:
    """Refuse a pattern that is empty or too long. Raises PatternError."""
    if not text:
        raise PatternError("An empty pattern matches nothing; leave it out, or write ** to match everything.")
    if len(text) > MAX_PATTERN_CHARS:
        raise PatternError(f"The pattern has {len(text)} characters; the most is {MAX_PATTERN_CHARS}.")


def climbs(subject: str) -> bool:
    """Whether a segment is `..`, percent-encoded or not.

    `/project/../etc` is below `/project/**` only by its spelling, so no wildcard matches such a subject.
    """
    if ".." not in subject and "%" not in subject:
        return False
    return _CLIMBS.search(subject) is not None


def translate(text: str, notation: Notation) -> str:
    """The pattern as a regular expression over the bytes of a subject."""
    inside = f"[^{re.escape(notation.separators)}]"
    across = f"[^{re.escape(notation.barriers)}]*" if notation.barriers else ".*"
    parts = []
    at_segment_start = True
    pieces = _TOKENS.findall(text)
    for at, piece in enumerate(pieces):
        following = pieces[at + 1][0] if at + 1 < len(pieces) else ""
        ends_segment = not following or following in notation.separators
        if piece == "*":
            deep = notation.deep_star and at_segment_start and ends_segment
            parts.append(f"{inside}+(?:/{inside}+)*" if deep else f"{inside}*")
        elif piece[0] != "*":
            parts.append(re.escape(piece))
        elif not piece.endswith("/"):
            parts.append(across)
        else:
            parts.append(f"(?:{across}/)?" if at_segment_start else f"{across}/")
        at_segment_start = piece[-1] in notation.separators
    return "".join(parts)


def automaton(regex: str) -> Callable[[bytes], object]:
    """A linear-time matcher of whole subjects in the form of `as_bytes`. Raises PatternError."""
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.dot_nl = True
    options.log_errors = False
    options.never_capture = True
    options.max_mem = 4 << 20
    try:
        matcher: Callable[[bytes], object] = re2.compile(as_bytes(regex), options).fullmatch
        return matcher
    except re2.error as error:
        raise PatternError(f"The pattern is too complex: {error}.") from None


def as_bytes(subject: str) -> bytes:
    """Any text as bytes, including lone surrogates. Separators stay ASCII."""
    return subject.encode("utf-8", "surrogatepass")


_TOKENS = re.compile(r"\*\*+/|\*\*+|\*|[^*]+")
_END = r"[/:\\?#]|%2f|%5c|%3a"
_CLIMBS = re.compile(rf"(?:^|{_END})(?:\.|%2e){{2}}(?:$|{_END})", re.IGNORECASE)
