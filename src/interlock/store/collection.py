"""Collections of documents. Each is declared once: its name, the struct of its documents, their key and columns."""

from __future__ import annotations

import hashlib
from typing import Final, Generic, TypeVar

import msgspec

from .errors import StoreDamaged
from .secret_names import names_a_secret

T = TypeVar("T", bound=msgspec.Struct)

MAX_KEY_CHARS: Final = 512
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
_MAX_COLUMN_CHARS: Final = 200


class Document(msgspec.Struct, Generic[T], frozen=True):
    """A stored document, with the version that a change of it must name."""

    key: str
    version: int
    value: T


class Collection(Generic[T]):
    """A named set of documents of one kind. Declared at import time, which raises ValueError for a mistake."""

    __slots__ = ("_decoder", "columns", "key", "kind", "name", "shares_damage")

    def __init__(
        self, name: str, kind: type[T], *, key: str, columns: tuple[str, ...] = (), shares_damage: bool = False
    ) -> None:
        fields = {field.encode_name for field in msgspec.structs.fields(kind)}
        for field in (key, *columns):
            if field not in fields:
                raise ValueError(f"{kind.__name__} has no field {field!r}")
        if secret := sorted(name for name in _all_names(kind) if names_a_secret(name)):
            raise ValueError(
                f"{kind.__name__} has {secret[0]!r}, named like a secret; store a hash or a sealed form of it"
            )
        self.name = name
        self.kind = kind
        self.key = key
        self.columns = columns
        """The fields that `find` can search, besides the key."""
        self.shares_damage = shares_damage
        """Whether every node is told of a document that one finds damaged: it counts instead of a further one, which
        cannot be stored in its place. Of other collections, a node keeps to the state that it read before."""
        self._decoder = msgspec.json.Decoder(kind)

    def key_of(self, value: T) -> str:
        key = getattr(value, self.key)
        if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_CHARS or "\0" in key:
            raise ValueError(f"a key of {self.name} is text of 1 to {MAX_KEY_CHARS} characters and no NUL, not {key!r}")
        return key

    def encode(self, value: T) -> str:
        body = msgspec.json.encode(value)
        if len(body) > MAX_BODY_BYTES:
            raise ValueError(f"a document of {self.name} is larger than {MAX_BODY_BYTES} bytes")
        return body.decode()

    def decode(self, key: str, body: str) -> T:
        """Raises StoreDamaged for a body that does not fit the struct, so that a doubtful document grants nothing."""
        try:
            return self._decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeError) as cause:
            text = f"{key!r} is not a {self.kind.__name__}: {cause}"
            raise StoreDamaged(f"an entry of {self.name} cannot be decoded", operator_text=text) from None

    def column_values(self, body: str) -> dict[str, str]:
        """The column values of a stored document, without fields that are missing or null."""
        if not self.columns:
            return {}
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        values = {column: msgspec.json.decode(fields[column]) for column in self.columns if column in fields}
        return {column: column_text(value) for column, value in values.items() if value is not None}


def _all_names(kind: type[msgspec.Struct]) -> set[str]:
    """The names of all fields, including those of nested structs."""
    _, components = msgspec.json.schema_components([kind])
    return {name for component in components.values() for name in component.get("properties", {})}


def column_text(value: object) -> str:
    """The indexed form of a value: its text, or a hash of it where an index cannot hold the text."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if len(text) <= _MAX_COLUMN_CHARS and "\0" not in text:
        return text
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
