"""URI templates of RFC 6570, levels 1 and 2: `{name}` is one segment, `{+path}` may cross slashes, `{#part}` follows a
hash. Matching is linear: no template and no address makes it slow."""

from __future__ import annotations

import itertools
import re
from urllib.parse import quote, unquote

import msgspec

_EXPRESSION = re.compile(r"\{([+#]?)([A-Za-z0-9_][A-Za-z0-9_.]*)\}")
_SEPARATOR = re.compile(r"[/\\]")
_ROOT = re.compile(r"[/\\]|[A-Za-z]:[/\\]")
_RESERVED = ":/?#[]@!$&'()*+,;="


class UriTemplate(msgspec.Struct, frozen=True):
    """A template with its variables."""

    text: str
    names: tuple[str, ...]
    parts: tuple[tuple[str, str, str], ...]
    """(literal before, operator, variable), in order; the last has no variable."""

    def match(self, uri: str) -> dict[str, str] | None:
        """The variables' values if the address is one of this template. The shortest value for each, left to right."""
        values: dict[str, str] = {}
        place = 0
        for number, (literal, operator, name) in enumerate(self.parts):
            if not uri.startswith(literal, place):
                return None
            place += len(literal)
            if not name:
                return values if place == len(uri) else None
            value = self._value(uri, place, number, operator)
            if value is None:
                return None
            place += len(value) + (operator == "#")
            try:
                values[name] = unquote(value, errors="strict")
            except UnicodeDecodeError:
                return None
        return values

    def keeps(self, values: dict[str, str]) -> bool:
        """Whether every value stays where the template puts it. One that climbs out with `..`, begins anew at a root or
        holds a NUL would lead a function that makes a path of it elsewhere."""
        return not any(
            name and _strays(values[name], from_root=literal == "file://") for literal, _, name in self.parts
        )

    def expand(self, values: dict[str, str]) -> str:
        """The address for these values."""
        pieces: list[str] = []
        for literal, operator, name in self.parts:
            pieces.append(literal)
            if name:
                safe = _RESERVED if operator else ""
                pieces.append(("#" if operator == "#" else "") + quote(values[name], safe=safe))
        return "".join(pieces)

    def _value(self, uri: str, place: int, number: int, operator: str) -> str | None:
        if operator == "#":
            if not uri.startswith("#", place):
                return None
            place += 1
        following = self.parts[number + 1]
        if not following[2]:
            # The last variable takes all up to the closing literal.
            end = len(uri) - len(following[0])
            if end < place or not uri.endswith(following[0]):
                return None
        else:
            ahead = following[0] or ("#" if following[1] == "#" else "")
            end = uri.find(ahead, place + 1)
            if end < 0:
                return None
        value = uri[place:end]
        if not value or (not operator and any(char in value for char in "/?#")):
            return None
        return value


def _strays(value: str, *, from_root: bool) -> bool:
    if "\0" in value or (_ROOT.match(value) and not from_root):
        return True
    depth = 0
    for step in _SEPARATOR.split(value):
        depth += -1 if step == ".." else step not in ("", ".")
        if depth < 0:
            return True
    return False


def parse(text: str) -> UriTemplate:
    """A template from its text. Raises ValueError for what levels 1 and 2 do not have."""
    parts: list[tuple[str, str, str]] = []
    place = 0
    for expression in _EXPRESSION.finditer(text):
        parts.append((text[place : expression.start()], expression[1], expression[2]))
        place = expression.end()
    rest = text[place:]
    parts.append((rest, "", ""))
    names = tuple(name for _, _, name in parts if name)
    if any(brace in literal for literal, _, _ in parts for brace in "{}"):
        raise ValueError(f"{text!r}: only {{name}}, {{+name}}, which may cross slashes, and {{#name}} are understood")
    if len(set(names)) != len(names):
        raise ValueError(f"{text!r}: a variable stands twice")
    for (_, _, name), (literal, operator, following) in itertools.pairwise(parts):
        if name and following and not literal and operator != "#":
            raise ValueError(
                f"{text!r}: nothing stands between {name} and {following}, so no address says where one ends"
            )
    return UriTemplate(text, names, tuple(parts))
