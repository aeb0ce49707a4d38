"""The one meaning of a pattern: for grants, scopes, feature sets, channels, tool lists and MCPx capabilities.

A segment ends at `/` or `:`, in feature sets and capability paths at `.`. `*` matches within one segment, `**` across
segments, `**/` also nothing at all; every other character means itself, case counts, and deny wins. A `*` at the end of
a deny pattern matches at any depth. Matching takes time linear in the subject.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

LONGEST_PATTERN = 1024
LONGEST_SUBJECT = 1_048_576


class PatternError(ValueError):
    """The pattern cannot be used; the message says why."""


class Pattern:
    """A pattern, compiled once."""

    __slots__ = ("_automaton", "_exact", "_prefix", "text")

    def __init__(self, text: str) -> None:
        self._compile(text, tail="")

    def matches(self, subject: str) -> bool:
        if self._exact:
            return subject == self.text
        if len(subject) > LONGEST_SUBJECT or not subject.startswith(self._prefix):
            return False
        if self._automaton is None:
            return True
        return self._automaton(subject.encode("utf-8", "surrogatepass")) is not None

    @property
    def literal(self) -> bool:
        """Whether the pattern matches nothing but its own text."""
        return self._exact

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"

    def _compile(self, text: str, tail: str, separators: str = "/:") -> None:
        if not text:
            raise PatternError("An empty pattern matches nothing; leave it out, or write ** to match everything.")
        if len(text) > LONGEST_PATTERN:
            raise PatternError(f"The pattern has {len(text)} characters; the most is {LONGEST_PATTERN}.")
        self.text = text
        stars = text.count("*")
        self._exact = not stars and not tail
        self._prefix = text.partition("*")[0]
        anything_after_prefix = text == self._prefix + "**" and not tail
        self._automaton = (
            None if self._exact or anything_after_prefix else _automaton(_translate(text, separators) + tail)
        )


class Capability(Pattern):
    """An MCPx capability, matched against the kind of an envelope (MCPx, Capability-Based Access Control).

    A `*` at the end matches any suffix. Without a context the capability covers every context of its method; one that
    names a context covers only that, and never a kind without one. Only the first two colons divide a kind.
    """

    __slots__ = ()

    def __init__(self, text: str) -> None:
        if text.endswith("*"):
            self._compile(text.rstrip("*") + "**", tail="")
            self.text = text
        else:
            self._compile(text, tail="(?::.*)?" if text.count(":") == 1 else "")


class DenyPattern(Pattern):
    """A pattern of a deny list: a `*` at its end matches at any depth."""

    __slots__ = ()

    def __init__(self, text: str) -> None:
        self._compile(_open_ended(text), tail="")
        self.text = text


class FeatureSetPattern(Pattern):
    """Names feature sets (MCPL, Hierarchical Naming): segments end at `.`, and `memory.*` is all below `memory.`."""

    __slots__ = ()

    def __init__(self, text: str) -> None:
        self._compile(_open_ended(text), tail="", separators=".")
        self.text = text


class CapabilityPath(Pattern):
    """An entry of a capability grant (MCPL 0.5, Capability Grants): a segment is a name or `*`, which is just one."""

    __slots__ = ()

    def __init__(self, text: str) -> None:
        if any("*" in segment and segment != "*" for segment in text.split(".")):
            raise PatternError("In a capability path `*` stands for one whole segment, and nothing for several.")
        self._compile(text, tail="", separators=".")


class PatternSet:
    """What is allowed and what is denied; deny wins, and nothing is allowed that no pattern names."""

    __slots__ = ("_allow", "_deny")

    def __init__(self, allow: Iterable[str], deny: Iterable[str] = ()) -> None:
        self._allow = tuple(compile_pattern(text) for text in allow)
        self._deny = tuple(compile_deny_pattern(text) for text in deny)

    def allows(self, subject: str) -> bool:
        return self.deciding(subject)[0]

    def deciding(self, subject: str) -> tuple[bool, str | None]:
        """Whether the subject is allowed, and the pattern that decided (None when no pattern names it)."""
        for denied in self._deny:
            if denied.matches(subject):
                return False, denied.text
        # `/project/../etc` lies under `/project/**` only in spelling, so a wildcard never vouches for it.
        climbs = ".." in subject and ".." in re.split(r"[/:\\]", subject)
        for pattern in self._allow:
            if pattern.matches(subject) and not (climbs and not pattern.literal):
                return True, pattern.text
        return False, None


@lru_cache(maxsize=4096)
def compile_pattern(text: str) -> Pattern:
    """The compiled pattern, shared by all who use the same text. Raises PatternError."""
    return Pattern(text)


@lru_cache(maxsize=4096)
def compile_deny_pattern(text: str) -> DenyPattern:
    """The compiled pattern of a deny list, shared by all who use the same text. Raises PatternError."""
    return DenyPattern(text)


@lru_cache(maxsize=4096)
def compile_feature_set_pattern(text: str) -> FeatureSetPattern:
    """The compiled pattern, shared by all who use the same text. Raises PatternError."""
    return FeatureSetPattern(text)


@lru_cache(maxsize=4096)
def compile_capability_path(text: str) -> CapabilityPath:
    """The compiled path, shared by all who use the same text. Raises PatternError."""
    return CapabilityPath(text)


@lru_cache(maxsize=4096)
def compile_capability(text: str) -> Capability:
    """The compiled capability, shared by all who use the same text. Raises PatternError."""
    return Capability(text)


_TOKENS = re.compile(r"\*\*+/|\*\*+|\*|[^*]+")


def _open_ended(text: str) -> str:
    return text.rstrip("*") + "**" if text.endswith("*") else text


def _translate(text: str, separators: str) -> str:
    parts = []
    at_segment_start = True
    for piece in _TOKENS.findall(text):
        if piece == "*":
            parts.append(f"[^{separators}]*")
        elif piece[0] != "*":
            parts.append(re.escape(piece))
        elif not piece.endswith("/"):
            parts.append(".*")
        else:
            parts.append("(?:.*/)?" if at_segment_start else ".*/")
        at_segment_start = piece[-1] in separators
    return "".join(parts)


def _automaton(regex: str) -> Callable[[bytes], object]:
    # Bytes in, so that any text can be matched, lone surrogates included; the separators are ASCII.
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.dot_nl = True
    options.log_errors = False
    options.never_capture = True
    options.max_mem = 4 << 20
    try:
        matcher: Callable[[bytes], object] = re2.compile(regex.encode("utf-8", "surrogatepass"), options).fullmatch
        return matcher
    except re2.error as error:
        raise PatternError(f"The pattern is too complex: {error}.") from None
