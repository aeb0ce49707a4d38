"""The arrays and objects of a large message that are open between two pieces of it.

A piece continues those that were open before it, and leaves some open behind it. An open one keeps only what later
pieces need: its names, to refuse a duplicate; the key of its last member; and its value, where a reader wants that.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from interlock.wire.large_nesting import Nesting
from interlock.wire.large_pieces import duplicate

MAX_NAMES_TOGETHER: Final = 16_384
"""Upper bound for the names in one set, before those of the next piece are added."""


class MemberSpan(msgspec.Struct):
    """A member of the envelope: its place, its value if that is short, and the places of its own members."""

    start: int
    stop: int
    value: object
    inner: dict[str, MemberSpan]


class ObjectNames:
    """The names in one object, in several sets: a large set would block the interpreter when it grows or is freed."""

    __slots__ = ("_sets",)

    def __init__(self) -> None:
        self._sets: list[set[str]] = []

    def update(self, node: Mapping[str, object]) -> None:
        """Add the names of a piece."""
        if not self._sets or len(self._sets[-1]) >= MAX_NAMES_TOGETHER:
            self._sets.append(set())
        self._sets[-1].update(node)

    def among(self, node: Mapping[str, object]) -> set[str]:
        """The names of a piece that are known."""
        found: set[str] = set()
        for names in self._sets:
            found |= node.keys() & names
        return found

    def clear(self) -> None:
        """Forget all names, one set after the other."""
        while self._sets:
            self._sets.pop()


class OpenContainer:
    """An array or object that is being read."""

    __slots__ = ("base", "begun", "head", "inner", "is_object", "items", "key", "name", "names", "places", "value")

    def __init__(self, is_object: bool, name: str, value: Any = None) -> None:
        self.is_object = is_object
        self.head = b"["
        """Bytes to put before the next piece: `[`, or `{` and the name of the last member."""
        self.name = name
        """The name that it has in the object around it."""
        self.names = ObjectNames()
        self.key = ""
        """The name of its last member."""
        self.value = value
        """Its value as far as it is read, where a reader wants it; else None."""
        self.begun = 0
        self.base = 0
        """Where the member of the envelope around it begins."""
        self.items = 0
        self.inner: dict[str, MemberSpan] = {}
        self.places = array("q")

    def begin_at(self, begun: int, base: int = 0) -> OpenContainer:
        """Note where it begins, and where the member of the envelope around it does."""
        self.begun, self.base = begun, base
        return self

    def read_key(self, key: str) -> None:
        """Note the name of the last member."""
        self.key, self.head = key, b"{%b:" % msgspec.json.encode(key)

    def extend_value(self, node: Any) -> None:
        """Add what a piece adds to the value. The piece repeats the last member or item as a placeholder."""
        if isinstance(self.value, dict):
            first = next(iter(node))
            node[first] = self.value[first]
            self.value.update(node)
        elif isinstance(self.value, list):
            self.value.extend(node[1:])

    def replace_last(self, text: str) -> None:
        """Put a long text in the place of the empty one that its piece left in the value."""
        if isinstance(self.value, dict):
            self.value[self.key] = text
        elif isinstance(self.value, list):
            self.value[-1] = text


class OpenEnds(msgspec.Struct, frozen=True):
    """The arrays and objects that are open at the two ends of a piece."""

    before: list[OpenContainer]
    behind: list[OpenContainer]
    text_follows: bool

    def continues(self, opened: OpenContainer, level: int) -> bool:
        """Whether an array or object began before the piece. So did the first value in it."""
        return level < len(self.before) and opened is self.before[level]

    def goes_on(self, opened: OpenContainer, level: int) -> bool:
        """Whether the last value in an array or object continues after the piece."""
        behind = self.behind
        return level < len(behind) and opened is behind[level] and (self.text_follows or level + 1 < len(behind))


def continued(before: list[OpenContainer], tree: Any) -> list[Any]:
    """The piece's part of each array and object that was already open. Refuses a name that repeats there."""
    nodes: list[Any] = []
    node = tree
    for opened in before:
        nodes.append(node)
        if opened.is_object:
            if len(twice := opened.names.among(node)) > 1:
                raise duplicate(min(twice - {opened.key}))
            node = node[opened.key]
        else:
            node = node[0]
    return nodes


def open_behind(
    before: list[OpenContainer], tree: Any, nesting: Nesting, keep: tuple[str, str] | None
) -> list[OpenContainer]:
    """The arrays and objects that are open behind a piece. `keep` is the path of the value that a reader wants."""
    stack: list[OpenContainer] = []
    node = tree
    for level, kind in enumerate(nesting.kinds):
        if level < nesting.lowest:
            opened = before[level]
        else:
            around = stack[-1] if stack else None
            path = tuple(each.key for each in stack)
            is_kept = around is not None and (around.value is not None or path == keep)
            opened = OpenContainer(kind == _BRACE, "" if around is None else around.key, node if is_kept else None)
        stack.append(opened)
        if opened.is_object:
            opened.names.update(node)
            opened.read_key(next(reversed(node), ""))
            node = node.get(opened.key)
        else:
            node = node[-1] if node else None
    return stack


_BRACE: Final = ord("{")
