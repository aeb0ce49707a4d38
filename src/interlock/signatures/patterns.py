"""Describes a regular expression in words, and makes a text that fits it. It never matches anything itself."""

from __future__ import annotations

import functools

from .regex import Anchor, CharacterSet, Choice, Node, Repeat, Sequence, parse

_MAX_CHARACTERS = 10_000
_NAMES = {(65, 90): "uppercase letters", (97, 122): "lowercase letters", (48, 57): "digits"}


@functools.lru_cache(maxsize=256)
def in_words(pattern: str) -> tuple[str, ...]:
    """How to write a text that fits: `use uppercase letters`, `1 to 5 characters`."""
    node = parse(pattern)
    if node is None or not _is_anchored(node):
        return ()
    text = None if _is_plain(node) else example(pattern)
    words = [
        _letters_in_words(_all_letters(node)),
        length_in_words(*_lengths(node)),
        f"for example {text!r}" if text else "",
    ]
    return tuple(filter(None, words))


def length_in_words(low: int, high: int | None, noun: str = "character") -> str:
    """`1 to 5 characters`, `exactly 1 item`, `at least 2 items`; empty where nothing is limited."""

    def counted(count: int) -> str:
        return f"{count} {noun}" if count == 1 else f"{count} {noun}s"

    if high is None:
        return f"at least {counted(low)}" if low > 0 else ""
    if low == high:
        return f"exactly {counted(high)}"
    return f"{low} to {counted(high)}" if low else f"at most {counted(high)}"


def example(pattern: str, min_length: int = 0, variant: int = 0) -> str | None:
    """A text of at least `min_length` characters that fits, another for another variant; None if none is found."""
    node = parse(pattern)
    if node is None:
        return None
    shortest, _ = _lengths(node)
    if max(shortest, min_length) > _MAX_CHARACTERS:
        return None
    text = _Writer(max(min_length, 1) - shortest, variant).write(node)
    return text if _is_anchored(node) else text.ljust(min_length, "x")


class _Writer:
    """Writes the shortest text, and repeats parts more often while characters are missing."""

    def __init__(self, missing: int, variant: int) -> None:
        self._missing = missing
        self._variant = variant

    def write(self, node: Node) -> str:
        match node:
            case CharacterSet():
                return self._letter(node)
            case Sequence(parts):
                return "".join([self.write(part) for part in parts])
            case Choice(options):
                return self.write(options[self._variant % len(options)])
            case Repeat():
                return self._repeat(node)
        return ""

    def _letter(self, letters: CharacterSet) -> str:
        if letters.negated:
            usable = (97 + self._variant % 26, *range(97, 123), *range(33, 1000))
            free = (code for code in usable if not any(low <= code <= high for low, high in letters.ranges))
            return next(map(chr, free), "")
        low, high = letters.ranges[0]
        return chr(low + self._variant % (high - low + 1))

    def _repeat(self, repeat: Repeat) -> str:
        written = [self.write(repeat.part) for _ in range(repeat.low)]
        while self._missing > 0 and (repeat.high is None or len(written) < repeat.high):
            more = self.write(repeat.part)
            if not more:
                break
            written.append(more)
            self._missing -= len(more)
        return "".join(written)


def _is_anchored(node: Node) -> bool:
    """Whether the whole text has to fit, and not only a part of it."""
    if isinstance(node, Choice):
        return all(_is_anchored(option) for option in node.options)
    if not isinstance(node, Sequence) or len(node.parts) < 2:
        return False
    return node.parts[0] == Anchor("^") and node.parts[-1] == Anchor("$")


def _is_plain(node: Node) -> bool:
    """Whether it is one kind of character, repeated: then an example adds nothing."""
    parts = [part for part in node.parts if not isinstance(part, Anchor)] if isinstance(node, Sequence) else [node]
    if len(parts) != 1:
        return not parts
    inner = parts[0].part if isinstance(parts[0], Repeat) else parts[0]
    return isinstance(inner, CharacterSet)


def _all_letters(node: Node) -> tuple[CharacterSet, ...]:
    match node:
        case CharacterSet():
            return (node,)
        case Sequence(parts) | Choice(parts):
            return tuple(letters for part in parts for letters in _all_letters(part))
        case Repeat(part, _, _):
            return _all_letters(part)
    return ()


def _lengths(node: Node) -> tuple[int, int | None]:
    """The shortest and the longest text that fits; None where nothing bounds the longest."""
    match node:
        case CharacterSet():
            return 1, 1
        case Sequence(parts) | Choice(parts):
            lows, highs = zip(*map(_lengths, parts), strict=True) if parts else ((0,), (0,))
            shortest, longest = (sum, sum) if isinstance(node, Sequence) else (min, max)
            return shortest(lows), None if None in highs else longest(highs)
        case Repeat(part, least, most):
            low, high = _lengths(part)
            return low * least, None if most is None or high is None else high * most
    return 0, 0


def _letters_in_words(found: tuple[CharacterSet, ...]) -> str:
    spans = list(dict.fromkeys(span for letters in found for span in letters.ranges))
    if any(letters.negated for letters in found):
        plain = len(found) == 1 and all(low == high for low, high in spans)
        return "do not use " + _listed([_quoted(low) for low, _ in spans]) if plain else ""
    names = [_NAMES.get((low, high)) or " to ".join(map(_quoted, dict.fromkeys((low, high)))) for low, high in spans]
    return "use " + _listed(names) if 0 < len(names) <= 8 else ""


def _quoted(code: int) -> str:
    return repr(chr(code))


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
