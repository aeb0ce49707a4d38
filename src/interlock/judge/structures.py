"""The texts of a structure, at any depth, names of members included.

Nothing is left out in silence: beyond a bound the first and the last texts are kept, and the answer is not complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from interlock.judge.text import show_hidden

MAX_PLACE_CHARS: Final = 120
MAX_WORD_CHARS: Final = 29
"""A longer word may be several words, joined by capitals or in base64."""
MEDIA: Final = ("data", "blob")
"""Members that hold media in base64."""
MEDIA_BEGINNING: Final = 8_192
"""Characters that are read of a medium: enough to see a text that only poses as one."""


class PlacedText(NamedTuple):
    """A text with its place, or the name of a member."""

    where: str
    text: str
    is_name: bool


class PlacedTexts(NamedTuple):
    """Texts, and whether these are all."""

    items: list[PlacedText]
    complete: bool


def texts_of(value: object, max_texts: int, max_characters: int, *, only_words: bool = False) -> PlacedTexts:
    """Each different text of a structure once. Beyond a bound, half of it from the beginning and half from the end.

    With `only_words`, texts of one word at most, and media beyond their beginning, are neither read nor counted.
    """
    found = _taken(_walk(value, only_words), max_texts, max_characters)
    if found.complete:
        return found
    first = _taken(_walk(value, only_words), max_texts // 2, max_characters // 2)
    last = _taken(_walk(value, only_words, backwards=True), max_texts // 2, max_characters // 2, backwards=True)
    return PlacedTexts([*first.items, *reversed(last.items)], complete=False)


def is_plain_name(text: str) -> bool:
    """Whether a text is a short name of letters, digits and few signs: too little to tell a model anything."""
    return _PLAIN_NAME.fullmatch(text) is not None


def _taken(texts: Iterable[PlacedText], max_texts: int, max_characters: int, *, backwards: bool = False) -> PlacedTexts:
    """The texts until a bound is reached. The text that reaches it is cut."""
    taken: dict[tuple[str, bool], PlacedText] = {}
    left = max_characters
    for each in texts:
        key = each.text, each.is_name
        if key in taken:
            continue
        if len(taken) >= max_texts or len(each.text) > left:
            if left and len(taken) < max_texts:
                cut = each.text[-left:] if backwards else each.text[:left]
                taken[key] = each._replace(text=cut)
            return PlacedTexts(list(taken.values()), complete=False)
        taken[key] = each
        left -= len(each.text)
    return PlacedTexts(list(taken.values()), complete=True)


def _walk(value: object, only_words: bool, *, backwards: bool = False) -> Iterator[PlacedText]:
    # The stack holds iterators, so that it grows with the depth alone.
    stack: list[tuple[str, Iterator[tuple[object, object]]]] = [("", iter([(None, value)]))]
    while stack:
        where, members = stack[-1]
        for key, item in members:
            name = key if isinstance(key, str) else ""
            if key is not None and not isinstance(key, int) and not (only_words and is_plain_name(name)):
                yield PlacedText(_place(where, key), name, True)
            if isinstance(item, str):
                text = item[:MEDIA_BEGINNING] if only_words and name in MEDIA and _is_medium(item) else item
                if not (only_words and _is_one_word(text)):
                    yield PlacedText(_place(where, key), text, False)
            elif isinstance(item, Mapping | list | tuple):
                stack.append((_place(where, key), _members(item, backwards)))
                break
        else:
            stack.pop()


def _members(
    value: Mapping[object, object] | list[object] | tuple[object, ...], backwards: bool
) -> Iterator[tuple[object, object]]:
    if isinstance(value, Mapping):
        pairs = ((str(key), item) for key, item in value.items())
        return reversed(list(pairs)) if backwards else pairs
    return zip(range(len(value) - 1, -1, -1), reversed(value), strict=True) if backwards else enumerate(value)


def _place(where: str, key: object) -> str:
    if key is None:
        return where
    if isinstance(key, int):
        return f"{where}[{key}]"[:MAX_PLACE_CHARS]
    name = show_hidden(str(key)[:MAX_PLACE_CHARS])
    return (f"{where}.{name}" if where else name)[:MAX_PLACE_CHARS]


def _is_one_word(text: str) -> bool:
    """Whether a text is a number, a date or a word: nothing that could tell a model anything."""
    return (
        len(text) <= MAX_WORD_CHARS and text.isascii() and text.isprintable() and _ONE_WORD.fullmatch(text) is not None
    )


def _is_medium(text: str) -> bool:
    """Whether a text can only be base64: it has nothing that could stand between two words."""
    return text.isascii() and not any(sign in text for sign in _BETWEEN_WORDS)


_PLAIN_NAME = re.compile(r"[\w.$@-]{0,40}", re.ASCII)
_ONE_WORD = re.compile(r"[^A-Za-z]*+(?:[A-Za-z]++[^A-Za-z]*+)?|[\d:.,TZ+\- ]*+")
_BETWEEN_WORDS: Final = " \t\r\n_-.,:;*%&\\"
