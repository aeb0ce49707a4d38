"""URI templates of RFC 6570, levels 1 and 2: `{name}` is one segment, `{+path}` may cross slashes, `{#part}` follows a
hash. Matching takes linear time for every template and address.
"""

from __future__ import annotations

import itertools
import re
from urllib.parse import unquote

import msgspec

_EXPRESSION = re.compile(r"\{([+#]?)([A-Za-z0-9_][A-Za-z0-9_.]*)\}")
_SEPARATOR = re.compile(r"[/\\]")
_ROOT = re.compile(r"[/\\]|[A-Za-z]:[/\\]")


class UriTemplate(msgspec.Struct, frozen=True):
    """A template with its variables."""

    text: str
    names: tuple[str, ...]
    parts: tuple[tuple[str, str, str], ...]
    """(literal before, operator, variable), in order; the last has no variable."""

    def match(self, uri: str) -> dict[str, str] | None:
        """The variables' values if the template covers the address: the shortest value for each, left to right."""
        values: dict[str, str] = {}
        position = 0
        for number, (literal, operator, name) in enumerate(self.parts):
            if not uri.startswith(literal, position):
                return None
            position += len(literal)
            if not name:
                return values if position == len(uri) else None
            value = self._value(uri, position, number, operator)
            if value is None:
                return None
            position += len(value) + (operator == "#")
            try:
                values[name] = unquote(value, errors="strict")
            except UnicodeDecodeError:
                return None
        return values

    def keeps(self, values: dict[str, str]) -> bool:
        """Whether every value stays below the place where the template puts it.

        A function that builds a path would leave that place with `..`, with an absolute path, or with a NUL.
        """
        return not any(
            name and _escapes(values[name], from_root=literal == "file://") for literal, _, name in self.parts
        )

    def _value(self, uri: str, position: int, number: int, operator: str) -> str | None:
        if operator == "#":
            if not uri.startswith("#", position):
                return None
            position += 1
        following = self.parts[number + 1]
        if not following[2]:
            # The last variable takes all up to the closing literal.
            end = len(uri) - len(following[0])
            if end < position or not uri.endswith(following[0]):
                return None
        else:
            ahead = following[0] or ("#" if following[1] == "#" else "")
            end = uri.find(ahead, position + 1)
            if end < 0:
                return None
        value = uri[position:end]
        if not value or (not operator and any(char in value for char in "/?#")):
            return None
        return value


def _escapes(value: str, *, from_root: bool) -> bool:
    if "\0" in value or (_ROOT.match(value) and not from_root):
        return True
    depth = 0
    for step in _SEPARATOR.split(value):
        depth += -1 if step == ".." else step not in ("", ".")
        if depth < 0:
            return True
    return False


def parse(text: str) -> UriTemplate:
    """A template from its text. Raises ValueError for syntax beyond levels 1 and 2."""
    parts: list[tuple[str, str, str]] = []
    position = 0
    for expression in _EXPRESSION.finditer(text):
        parts.append((text[position : expression.start()], expression[1], expression[2]))
        position = expression.end()
    parts.append((text[position:], "", ""))
    names = tuple(name for _, _, name in parts if name)
    if any(brace in literal for literal, _, _ in parts for brace in "{}"):
        raise ValueError(f"{text!r}: only {{name}}, {{+name}}, which may cross slashes, and {{#name}} are understood")
    if len(set(names)) != len(names):
        raise ValueError(f"{text!r}: a variable is used twice")
    for (_, _, name), (literal, operator, following) in itertools.pairwise(parts):
        if name and following and not literal and operator != "#":
            raise ValueError(
                f"{text!r}: there is no text between {name} and {following}, so an address cannot be divided"
            )
    return UriTemplate(text, names, tuple(parts))
