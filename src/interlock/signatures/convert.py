"""Converts validated JSON to the Python values that a function takes. msgspec does most; this module the rest."""

from __future__ import annotations

import collections
import collections.abc
import decimal
import enum
import ipaddress
import pathlib
import types
import typing
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, TypeAlias, Union

import msgspec
from msgspec import UNSET

from .compose import plain_choice
from .constraints import Satisfies
from .marks import checks_of
from .members import (
    alias_value,
    has_members,
    holds_checks,
    holds_class_defaults,
    holds_validators,
    is_named_tuple,
    members_of,
    unwrapped,
)
from .pydantic_types import is_any_json, is_pydantic, loader_of
from .type_schema import SchemaWriter, is_hashable
from .typed_checks import typed_checks
from .validate import Validator

Converter: TypeAlias = Callable[[Any], Any]

_AS_THEY_ARE = frozenset({str, typing.LiteralString, bool, None, type(None), Any, object, list, dict})
_BY_CALL = (pathlib.PurePath, ipaddress.IPv4Address, ipaddress.IPv6Address, str, int, float, collections.deque)


class Converters:
    """Makes converters, each once. A converter raises an error of any type for a value that does not fit."""

    def __init__(self) -> None:
        self._made: dict[Any, Converter | None] = {}

    def make(self, annotation: Any) -> Converter | None:
        """The converter of a type; None where the function takes the JSON value itself."""
        if not is_hashable(annotation):
            return self._make(annotation)
        if annotation not in self._made:
            self._made[annotation] = lambda value: self._late(annotation, value)
            self._made[annotation] = self._make(annotation)
        return self._made[annotation]

    def _late(self, annotation: Any, value: Any) -> Any:
        """Convert with a type that contains itself: its converter exists by the time a value arrives."""
        return _apply(self._made[annotation], value)

    def _make(self, annotation: Any) -> Converter | None:
        if (is_hashable(annotation) and annotation in _AS_THEY_ARE) or is_any_json(annotation):
            return None
        if holds_validators(annotation):
            return loader_of(annotation)
        if annotation in (int, float) or (isinstance(annotation, type) and issubclass(annotation, enum.IntFlag)):
            return typing.cast("Converter", annotation)
        if annotation is decimal.Decimal:
            return lambda value: decimal.Decimal(str(value))
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is Annotated:
            checks = (*checks_of(arguments[1:]), *typed_checks(arguments[0], arguments[1:]))
            return _checked(self.make(arguments[0]), checks)
        if origin is Literal and all(type(value) in (str, bool, type(None)) for value in arguments):
            return None
        if origin is list and self.make(arguments[0]) is None:
            return None
        if is_pydantic(annotation) and not has_members(annotation):
            return loader_of(annotation)
        if origin is Literal:
            return _literal_converter(arguments)
        if (origin is Union or origin is types.UnionType) and sum(map(_is_text, arguments)) > 1:
            return self._make_union(arguments)
        if _msgspec_knows(annotation):
            return lambda value: _by_msgspec(annotation, value)
        return self._make_by_parts(annotation, origin or annotation, arguments)

    def _make_by_parts(self, annotation: Any, kind: Any, arguments: tuple[Any, ...]) -> Converter | None:
        if kind is Union or kind is types.UnionType:
            return self._make_union(arguments)
        if (aliased := alias_value(annotation)) is not UNSET:
            return self.make(aliased)
        if (inner := unwrapped(annotation)) is not annotation:
            return self.make(inner)
        if has_members(kind):
            return self._make_class(kind, arguments)
        if not (isinstance(kind, type) and arguments):
            return lambda value: _load(annotation, value)
        if kind is tuple and arguments[-1] is not Ellipsis:
            parts = [self.make(argument) for argument in arguments]
            return lambda value: tuple(_apply(part, item) for part, item in zip(parts, value, strict=True))
        if issubclass(kind, collections.abc.Mapping):
            keys, values = self.make(arguments[0]), self.make(arguments[1])
            return lambda value: {_apply(keys, key): _apply(values, item) for key, item in value.items()}
        items = self.make(arguments[0])
        collect: Callable[[Iterable[Any]], Any] = kind if kind in (tuple, set, frozenset, collections.deque) else list
        return lambda value: collect(_apply(items, item) for item in value)

    def _make_union(self, arms: tuple[Any, ...]) -> Converter:
        """Convert with the arm whose schema the value fits; of several, with the one that knows most of its keys."""
        choices = [(_validator_of(arm), _keys_of(arm), self.make(arm)) for arm in arms]

        def convert(value: Any) -> Any:
            fitting = [(keys, arm) for validator, keys, arm in choices if validator.is_valid(value)]
            if not fitting:
                raise ValueError("fits none of the forms that are allowed here")
            if isinstance(value, dict):
                fitting.sort(key=lambda choice: -len(choice[0] & value.keys()))
            return _apply(fitting[0][1], value)

        return convert

    def _make_class(self, kind: type, arguments: tuple[Any, ...]) -> Converter:
        bound = dict(zip(getattr(kind, "__parameters__", ()), arguments, strict=False))
        members = [(member.name, member.wire_name, self.make(member.annotation)) for member in members_of(kind, bound)]
        if is_named_tuple(kind):
            parts = [convert for _, _, convert in members]
            return lambda value: kind(*(_apply(convert, item) for convert, item in zip(parts, value, strict=False)))
        return lambda value: kind(
            **{name: _apply(convert, value[wire]) for name, wire, convert in members if wire in value}
        )


def _checked(convert: Converter | None, checks: tuple[Satisfies, ...]) -> Converter | None:
    """A converter whose values have passed the checks that only code can make."""
    if not checks:
        return convert

    def checked(value: Any) -> Any:
        converted = _apply(convert, value)
        for rule in checks:
            if not rule.check(converted):
                raise ValueError(rule.reason)
        return converted

    return checked


def _literal_converter(choices: tuple[Any, ...]) -> Converter:
    """Convert a choice to the enum member that it names, and 1.0 to 1."""
    plain = [(plain_choice(choice), choice) for choice in choices]

    def convert(value: Any) -> Any:
        for listed, choice in plain:
            if listed == value and isinstance(listed, bool) is isinstance(value, bool):
                return choice
        raise ValueError("is none of the choices")

    return convert


def _is_text(annotation: Any) -> bool:
    """Whether values of the type travel as texts; msgspec cannot tell two such arms of a union apart."""
    schema = SchemaWriter().write(annotation)
    return schema.get("type") == "string" and "enum" not in schema


def _apply(convert: Converter | None, value: Any) -> Any:
    return convert(value) if convert else value


def _msgspec_knows(annotation: Any) -> bool:
    if holds_class_defaults(annotation) or holds_checks(annotation):
        return False
    try:
        msgspec.json.Decoder(annotation, dec_hook=_load)
    except TypeError:
        return False
    return True


def _by_msgspec(annotation: Any, value: Any) -> Any:
    try:
        return msgspec.convert(value, annotation, dec_hook=_load, str_keys=True)
    except msgspec.ValidationError:
        # JSON Schema calls 1.0 an integer and msgspec does not.
        return msgspec.convert(_integral(value), annotation, dec_hook=_load, str_keys=True)


def _integral(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_integral(item) for item in value]
    if isinstance(value, dict):
        return {key: _integral(item) for key, item in value.items()}
    return value


def _load(annotation: Any, value: Any) -> Any:
    """Convert to a type that msgspec does not know: its `dec_hook`."""
    if is_pydantic(annotation):
        return loader_of(annotation)(value)
    kind = typing.get_origin(annotation) or annotation
    if isinstance(kind, type) and issubclass(kind, _BY_CALL):
        return kind(value)
    if kind in (collections.abc.Iterable, collections.abc.Collection):
        return value
    raise NotImplementedError(f"no conversion to {annotation}")


def _validator_of(annotation: Any) -> Validator:
    writer = SchemaWriter()
    return Validator(writer.finish(writer.write(annotation)), formats=True)


def _keys_of(annotation: Any) -> frozenset[str]:
    writer = SchemaWriter()
    properties: Any = writer.resolve(writer.write(annotation)).get("properties", ())
    return frozenset(properties)
