"""From a Python type to JSON Schema 2020-12.

Schemas stay flat: a class is inlined unless it recurs or is used again.
"""

from __future__ import annotations

import collections
import collections.abc
import datetime
import decimal
import enum
import ipaddress
import pathlib
import types
import typing
import uuid
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Union

import msgspec
from msgspec import UNSET

from .compose import choices, fixed_array, plain_choice, union
from .constraints import Schema, constrain
from .definitions import REF, Definitions, referenced
from .docstrings import Docstring
from .marks import marks_of
from .members import Member, alias_value, has_members, is_named_tuple, members_of, summary_of, unwrapped
from .problems import DefinitionError
from .pydantic_types import dumped, is_any_json, is_pydantic, schema_of
from .typed_checks import encoded_lengths

MAX_TYPE_DEPTH = 64

_DECIMAL = r"^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_SCALARS: dict[object, Schema] = {
    None: {"type": "null"},
    type(None): {"type": "null"},
    str: {"type": "string"},
    typing.LiteralString: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    bytearray: {"type": "string", "contentEncoding": "base64"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    datetime.timedelta: {"type": "string", "format": "duration"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    decimal.Decimal: {"type": ["number", "string"], "pattern": _DECIMAL},
    pathlib.Path: {"type": "string"},
    pathlib.PurePath: {"type": "string"},
    ipaddress.IPv4Address: {"type": "string", "format": "ipv4"},
    ipaddress.IPv6Address: {"type": "string", "format": "ipv6"},
    Any: {},
    object: {},
}
_SETS = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)
_ARRAYS = (
    *(list, tuple, collections.deque, collections.abc.Sequence, collections.abc.MutableSequence),
    *(collections.abc.Collection, collections.abc.Iterable, *_SETS),
)
_OBJECTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


class SchemaWriter:
    """Writes the schemas of one signature; a class that several of them use goes to `$defs` once."""

    def __init__(self, mode: Literal["input", "output"] = "input") -> None:
        self.mode = mode
        self._definitions = Definitions()
        self._names: dict[object, str] = {}
        self._depth = 0

    def write(self, annotation: Any) -> Schema:
        """The schema of a type; raises DefinitionError for a type that JSON cannot carry."""
        self._depth += 1
        try:
            if self._depth > MAX_TYPE_DEPTH:
                raise DefinitionError(f"the type nests deeper than {MAX_TYPE_DEPTH} levels")
            return self._write(annotation)
        finally:
            self._depth -= 1

    def finish(self, schema: Schema) -> Schema:
        """The whole schema: classes that are used once inlined, the others under `$defs`."""
        return self._definitions.join(schema)

    def resolve(self, schema: Schema) -> Schema:
        """The schema that a bare reference stands for, or the schema itself."""
        return self._definitions.get(referenced(schema)) or schema

    def _write(self, annotation: Any) -> Schema:
        if is_hashable(annotation) and annotation in _SCALARS:
            return dict(_SCALARS[annotation])
        origin = typing.get_origin(annotation)
        if is_any_json(annotation):
            return {}
        if origin is Annotated:
            return self._write_annotated(annotation)
        if origin is Union or origin is types.UnionType:
            return self._write_union(typing.get_args(annotation))
        if origin is Literal:
            return choices([plain_choice(value) for value in typing.get_args(annotation)])
        if (aliased := alias_value(annotation)) is not UNSET:
            return self._named(annotation, lambda _: self.write(aliased))
        if (inner := unwrapped(annotation)) is not annotation:
            return self.write(inner)
        return self._write_class(annotation, origin or annotation, typing.get_args(annotation))

    def _write_annotated(self, annotation: Any) -> Schema:
        inner, *metadata = typing.get_args(annotation)
        marks = marks_of(metadata)
        if marks.schema is not None:
            return marks.decorate(marks.schema)
        constraints = marks.all_constraints()
        schema = constrain(self.write(inner), encoded_lengths(constraints) if inner is bytes else constraints)
        for mark in metadata:
            extra = getattr(mark, "extra_json_schema", None)
            if isinstance(extra, dict):
                schema.update(extra)
        return marks.decorate(schema)

    def _write_union(self, arms: tuple[Any, ...]) -> Schema:
        schemas: list[Schema] = []
        for schema in map(self.write, arms):
            if not schema:
                return {}
            if schema not in schemas:
                schemas.append(schema)
        return union(schemas)

    def _write_class(self, annotation: Any, kind: Any, arguments: tuple[Any, ...]) -> Schema:
        if kind is tuple and annotation is not tuple and Ellipsis not in arguments:
            return fixed_array([self.write(item) for item in arguments])
        if kind in _ARRAYS:
            array: Schema = {"type": "array"}
            if arguments and (items := self.write(arguments[0])):
                array["items"] = items
            return {**array, "uniqueItems": True} if kind in _SETS else array
        if kind in _OBJECTS:
            return self._write_mapping(arguments)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            if issubclass(kind, enum.IntFlag):
                return {"type": "integer", "minimum": 0}
            return choices([plain_choice(member) for member in kind])
        if has_members(kind):
            bound = dict(zip(getattr(kind, "__parameters__", ()), arguments, strict=False))
            return self._named(annotation, lambda _: self._write_members(kind, bound))
        if is_pydantic(kind):
            return self._named(annotation, lambda name: self._write_pydantic(annotation, name))
        if isinstance(kind, type) and kind.__mro__[1:-1]:
            for scalar in (str, int, float):
                if issubclass(kind, scalar):
                    return dict(_SCALARS[scalar])
        raise DefinitionError(
            f"{_spelled(annotation)} has no JSON form; use a dataclass, a msgspec struct, a TypedDict or plain types"
        )

    def _write_mapping(self, arguments: tuple[Any, ...]) -> Schema:
        schema: Schema = {"type": "object"}
        if not arguments:
            return schema
        keys, values = (*arguments, Any)[:2]
        key_schema = self.write(keys)
        if key_schema.get("type", "string") not in ("integer", "string"):
            raise DefinitionError(f"the keys of a JSON object are texts; {_spelled(keys)} cannot be one")
        if key_schema.get("type") == "integer":
            schema["propertyNames"] = {"pattern": "^-?[0-9]+$"}
        elif narrowing := {name: value for name, value in key_schema.items() if name != "type"}:
            schema["propertyNames"] = narrowing
        if value_schema := self.write(values):
            schema["additionalProperties"] = value_schema
        return schema

    def _named(self, annotation: Any, write: Callable[[str], Schema]) -> Schema:
        if annotation not in self._names:
            name = self._names[annotation] = self._definitions.reserve(_definition_name(annotation))
            self._definitions[name] = write(name)
        return {"$ref": REF + self._names[annotation]}

    def _write_members(self, kind: type, bound: Mapping[Any, Any]) -> Schema:
        try:
            members = members_of(kind, bound)
        except Exception as error:
            raise DefinitionError(f"the annotations of {kind.__qualname__} cannot be read: {error}") from error
        described = Docstring.parse(kind.__doc__ or "").parameters
        schemas = {member.wire_name: self._write_member(member, described) for member in members}
        config = kind.__struct_config__ if issubclass(kind, msgspec.Struct) else None
        if is_named_tuple(kind) or (config and config.array_like):
            return fixed_array(list(schemas.values()), sum(member.required for member in members))
        schema: Schema = {"type": "object"}
        if summary := summary_of(kind):
            schema["description"] = summary
        required = [member.wire_name for member in members if member.required]
        if config and config.tag is not None:
            tag_field = config.tag_field or "type"
            schemas = {tag_field: {"const": config.tag}, **schemas}
            required.insert(0, tag_field)
        schema["properties"] = schemas
        if required:
            schema["required"] = required
        if config and config.forbid_unknown_fields:
            schema["additionalProperties"] = False
        return schema

    def _write_member(self, member: Member, described: Mapping[str, str]) -> Schema:
        annotation = _without_unset(member.annotation)
        try:
            schema = self.write(annotation)
        except DefinitionError as error:
            raise DefinitionError(f"{member.name}: {error}") from error
        if "description" not in schema and member.name in described:
            schema["description"] = described[member.name]
        if member.default is not UNSET and self.mode == "input" and (plain := as_json(member.default)) is not UNSET:
            schema["default"] = plain
        return schema

    def _write_pydantic(self, annotation: Any, name: str) -> Schema:
        try:
            schema = schema_of(annotation, self.mode, f"{REF}{{model}}")
        except Exception as error:
            raise DefinitionError(f"{_spelled(annotation)} has no JSON Schema: {error}") from error
        return self._definitions.adopt(schema, name)


def as_json(value: object) -> Any:
    """A Python value as JSON holds it, or UNSET if it has no JSON form."""
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_dump)
    except Exception:
        return UNSET


def _dump(value: object) -> object:
    if is_pydantic(type(value)):
        return dumped(value)
    if isinstance(value, pathlib.PurePath | ipaddress.IPv4Address | ipaddress.IPv6Address):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")


def _definition_name(annotation: Any) -> str:
    """`Page[int]` as `Page_int`, which a JSON pointer holds without escaping."""
    name = getattr(annotation, "__name__", None) or _spelled(annotation)
    if arguments := typing.get_args(annotation):
        name = "_".join(_name_of(part) or "x" for part in (typing.get_origin(annotation), *arguments))
    return "".join(letter if letter.isalnum() or letter == "_" else "_" for letter in name)


def _without_unset(annotation: Any) -> Any:
    """A member `int | UnsetType` is an optional integer: unset is the absence of a value, not a value."""
    if typing.get_origin(annotation) not in (Union, types.UnionType):
        return annotation
    arms = tuple(arm for arm in typing.get_args(annotation) if arm is not msgspec.UnsetType)
    return Union[arms] if arms else annotation  # noqa: UP007 - the arms are a value here


def is_hashable(value: object) -> bool:
    """Whether an annotation can be a key; marks may hold what cannot."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _name_of(value: object) -> str:
    return str(getattr(value, "__name__", None) or getattr(value, "_name", None) or "")


def _spelled(annotation: object) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation)
