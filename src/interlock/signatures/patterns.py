"""Says a regular expression in words, and makes a text that fits it. It never matches anything itself."""

from __future__ import annotations

import functools

from .regex import Anchor, Choice, Letters, Node, Repeat, Sequence, parse

_MOST_CHARACTERS = 10_000


@functools.lru_cache(maxsize=256)
def in_words(pattern: str) -> tuple[str, ...]:
    """How to write a text that fits: `use uppercase letters`, `1 to 5 characters`."""
    node = parse(pattern)
    if node is None or not _is_anchored(node):
        return ()
    words: list[str] = []
    if letters := _letters_in_words(_all_letters(node)):
        words.append(letters)
    least, most = _lengths(node)
    if length := length_in_words(least, most):
        words.append(length)
    if not _is_plain(node) and (text := example(pattern)):
        words.append(f"for example {text!r}")
    return tuple(words)


def length_in_words(least: int, most: int | None, noun: str = "character") -> str:
    """`1 to 5 characters`, `exactly 1 item`, `at least 2 items`; nothing where nothing is limited."""

    def counted(count: int) -> str:
        return f"{count} {noun}" if count == 1 else f"{count} {noun}s"

    if most is None:
        return f"at least {counted(least)}" if least > 0 else ""
    if least == most:
        return f"exactly {counted(most)}"
    return f"{least} to {counted(most)}" if least else f"at most {counted(most)}"


def example(pattern: str, least: int = 0, variant: int = 0) -> str | None:
    """A text of at least `least` characters that fits, another for another variant; None if none is found."""
    node = parse(pattern)
    if node is None or least > _MOST_CHARACTERS:
        return None
    shortest, _ = _lengths(node)
    wanted = max(least, 1)
    if shortest > _MOST_CHARACTERS:
        return None
    text = _Writer(wanted - shortest, variant).write(node)
    if len(text) < least and not _is_anchored(node):
        text += "x" * (least - len(text))
    return text


class _Writer:
    """Writes the shortest text, and repeats more often while characters are still missing."""

    def __init__(self, missing: int, variant: int) -> None:
        self._missing = missing
        self._variant = variant

    def write(self, node: Node) -> str:
        match node:
            case Letters():
                return self._letter(node)
            case Sequence(parts):
                return "".join([self.write(part) for part in parts])
            case Choice(options):
                return self.write(options[self._variant % len(options)])
            case Repeat(part, least, most):
                return self._repeat(part, least, most)
        return ""

    def _letter(self, letters: Letters) -> str:
        if letters.negated:
            usable = (code for code in (97 + self._variant % 26, *range(97, 123), *range(33, 1000)))
            for code in usable:
                if not any(low <= code <= high for low, high in letters.ranges):
                    return chr(code)
            return ""
        low, high = letters.ranges[0]
        return chr(low + self._variant % (high - low + 1))

    def _repeat(self, part: Node, least: int, most: int | None) -> str:
        written = [self.write(part) for _ in range(least)]
        while self._missing > 0 and (most is None or len(written) < most):
            more = self.write(part)
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
    """Whether it is one kind of character, repeated: then its words say all there is to say."""
    parts = [part for part in node.parts if not isinstance(part, Anchor)] if isinstance(node, Sequence) else [node]
    if len(parts) != 1:
        return not parts
    inner = parts[0].part if isinstance(parts[0], Repeat) else parts[0]
    return isinstance(inner, Letters)


def _all_letters(node: Node) -> tuple[Letters, ...]:
    match node:
        case Letters():
            return (node,)
        case Sequence(parts) | Choice(parts):
            return tuple(letters for part in parts for letters in _all_letters(part))
        case Repeat(part, _, _):
            return _all_letters(part)
    return ()


def _lengths(node: Node) -> tuple[int, int | None]:
    match node:
        case Letters():
            return 1, 1
        case Sequence(parts):
            inner = [_lengths(part) for part in parts]
            most = [high for _, high in inner]
            return sum(low for low, _ in inner), None if None in most else sum(high or 0 for high in most)
        case Choice(options):
            inner = [_lengths(option) for option in options]
            most = [high for _, high in inner]
            return min(low for low, _ in inner), None if None in most else max(high or 0 for high in most)
        case Repeat(part, least, times):
            low, high = _lengths(part)
            return low * least, None if times is None or high is None else high * times
    return 0, 0


def _letters_in_words(found: tuple[Letters, ...]) -> str:
    if any(letters.negated for letters in found):
        excluded = [letters for letters in found if letters.negated]
        if len(found) == 1 and all(low == high for low, high in excluded[0].ranges):
            return "do not use " + _listed([_quoted(low) for low, _ in excluded[0].ranges])
        return ""
    names: list[str] = []
    for low, high in dict.fromkeys(span for letters in found for span in letters.ranges):
        name = {(65, 90): "uppercase letters", (97, 122): "lowercase letters", (48, 57): "digits"}.get((low, high))
        names.append(name or (_quoted(low) if low == high else f"{_quoted(low)} to {_quoted(high)}"))
    return "use " + _listed(list(dict.fromkeys(names))) if 0 < len(names) <= 8 else ""


def _quoted(code: int) -> str:
    return repr(chr(code))


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
