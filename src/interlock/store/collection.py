"""Collections of documents, each declared once: its name, what its documents are, their key, what they are found by."""

from __future__ import annotations

import hashlib
from typing import Final, Generic, TypeVar

import msgspec

from .errors import StoreDamaged
from .secret_names import names_a_secret

T = TypeVar("T", bound=msgspec.Struct)

LONGEST_KEY: Final = 512
LARGEST_BODY: Final = 4 * 1024 * 1024
_LONGEST_VALUE: Final = 200


class Document(msgspec.Struct, Generic[T], frozen=True):
    """A document as it was stored, with the version that a change of it has to name."""

    key: str
    version: int
    value: T


class Collection(Generic[T]):
    """A named set of documents of one kind. Declared at import time; a mistake in it shows there."""

    __slots__ = ("_decoder", "columns", "key", "kind", "name")

    def __init__(self, name: str, kind: type[T], *, key: str, columns: tuple[str, ...] = ()) -> None:
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
        """The fields that documents are found by, apart from their key."""
        self._decoder = msgspec.json.Decoder(kind)

    def key_of(self, value: T) -> str:
        """The key of a document. It is text, not empty and not endless."""
        key = getattr(value, self.key)
        if not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY or "\0" in key:
            raise ValueError(f"a key of {self.name} is text of 1 to {LONGEST_KEY} characters without NUL, not {key!r}")
        return key

    def encode(self, value: T) -> str:
        """The text that is stored."""
        body = msgspec.json.encode(value)
        if len(body) > LARGEST_BODY:
            raise ValueError(f"a document of {self.name} is larger than {LARGEST_BODY} bytes")
        return body.decode()

    def decode(self, key: str, body: str) -> T:
        """The document that was stored. What does not fit its declaration is damage: in doubt, nothing is granted."""
        try:
            return self._decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeError) as cause:
            raise StoreDamaged(f"{self.name} {key!r} is not a {self.kind.__name__}: {cause}") from None

    def column_values(self, body: str) -> dict[str, str]:
        """What a stored document is found by; a field without a value is not in it."""
        if not self.columns:
            return {}
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        found = {}
        for column in self.columns:
            value = None if column not in fields else msgspec.json.decode(fields[column])
            if value is not None:
                found[column] = column_text(value)
        return found


def _all_names(kind: type[msgspec.Struct]) -> set[str]:
    """The names of all fields, those of structs inside too."""
    _, components = msgspec.json.schema_components([kind])
    names: set[str] = set()
    for component in components.values():
        names |= component.get("properties", {}).keys()
    return names


def column_text(value: object) -> str:
    """A value as it stands in an index. What an index cannot hold stands there as its hash."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if len(text) <= _LONGEST_VALUE and "\0" not in text:
        return text
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
