"""The members of a class that JSON can carry: dataclass, msgspec struct, attrs class, TypedDict, NamedTuple."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeGuard

import msgspec
from msgspec import UNSET

from .marks import checks_of
from .pydantic_types import validates


class Member(msgspec.Struct, frozen=True):
    """One member: its name in Python and on the wire, its annotation, and its default if it has a plain one."""

    name: str
    wire_name: str
    annotation: Any
    required: bool
    default: Any = UNSET


def has_members(kind: object) -> TypeGuard[type]:
    """Whether the class is one whose members this module can list. Pydantic's dataclasses are pydantic's own affair."""
    return (
        isinstance(kind, type)
        and not hasattr(kind, "__pydantic_validator__")
        and (
            dataclasses.is_dataclass(kind)
            or issubclass(kind, msgspec.Struct)
            or hasattr(kind, "__attrs_attrs__")
            or typing.is_typeddict(kind)
            or _is_typed_dict_of_extensions(kind)
            or is_named_tuple(kind)
        )
    )


def is_named_tuple(kind: type) -> bool:
    """Whether the class is a NamedTuple, which travels as an array."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def members_of(kind: type, arguments: Mapping[Any, Any]) -> tuple[Member, ...]:
    """The members in order, with type variables replaced by the arguments of a generic alias.

    Raises NameError or TypeError for annotations that cannot be read; the caller knows where they stand.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    hints = {name: _substituted(annotation, arguments) for name, annotation in hints.items()}
    if issubclass(kind, msgspec.Struct):
        return _struct_members(kind, hints)
    if dataclasses.is_dataclass(kind):
        return _dataclass_members(kind, hints)
    if hasattr(kind, "__attrs_attrs__"):
        return _attrs_members(kind, hints)
    if is_named_tuple(kind):
        defaults: Mapping[str, object] = getattr(kind, "_field_defaults", {})
        names: tuple[str, ...] = getattr(kind, "_fields", ())
        return tuple(
            Member(name, name, hints.get(name, Any), name not in defaults, defaults.get(name, UNSET)) for name in names
        )
    required: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
    return tuple(
        Member(name, name, annotation, _marked(annotation, otherwise=name in required))
        for name, annotation in hints.items()
    )


def holds_class_defaults(annotation: Any, seen: frozenset[Any] = frozenset()) -> bool:
    """Whether a dataclass that keeps a default in its class stands anywhere in a type.

    msgspec leaves such a default there when it makes one, and does not find it when it writes the value out again.
    """
    kind = typing.get_origin(annotation) or annotation
    arguments = typing.get_args(annotation)
    if any(holds_class_defaults(argument, seen) for argument in arguments if not isinstance(argument, str)):
        return True
    if not has_members(kind) or kind in seen:
        return False
    if dataclasses.is_dataclass(kind) and "__slots__" not in kind.__dict__:
        plain = (field.default is not dataclasses.MISSING for field in dataclasses.fields(kind))
        if any(plain):
            return True
    members = members_of(kind, {})
    return any(holds_class_defaults(member.annotation, seen | {kind}) for member in members)


def holds_validators(annotation: Any) -> bool:
    """Whether something that pydantic is to do with a value stands anywhere in a type that pydantic can read."""
    return _is_marked(annotation, validates, lambda kind: not _is_foreign_to_pydantic(kind), frozenset())


def holds_checks(annotation: Any) -> bool:
    """Whether a check that only code can make stands anywhere in a type."""
    return _is_marked(annotation, lambda mark: bool(checks_of([mark])), lambda kind: True, frozenset())


def summary_of(kind: type) -> str:
    """The first paragraph of the class's own docstring; the ones that Python writes by itself say nothing."""
    text = kind.__dict__.get("__doc__")
    if not isinstance(text, str) or text.startswith((f"{kind.__name__}(", "Create a collection of name/value pairs")):
        return ""
    return " ".join(inspect.cleandoc(text).split("\n\n")[0].split())


def _struct_members(kind: type[msgspec.Struct], hints: Mapping[str, Any]) -> tuple[Member, ...]:
    return tuple(
        Member(
            field.name,
            field.encode_name,
            hints[field.name],
            field.required,
            UNSET if field.default is msgspec.NODEFAULT else field.default,
        )
        for field in msgspec.structs.fields(kind)
    )


def _dataclass_members(kind: type, hints: Mapping[str, Any]) -> tuple[Member, ...]:
    members = []
    for field in dataclasses.fields(kind):
        if not field.init:
            continue
        has_default = field.default is not dataclasses.MISSING
        required = not has_default and field.default_factory is dataclasses.MISSING
        default = field.default if has_default else UNSET
        members.append(Member(field.name, field.name, hints[field.name], required, default))
    return tuple(members)


def _attrs_members(kind: type, hints: Mapping[str, Any]) -> tuple[Member, ...]:
    members = []
    for attribute in getattr(kind, "__attrs_attrs__", ()):
        if not attribute.init:
            continue
        missing = type(attribute.default).__name__ == "_Nothing" or repr(attribute.default) == "NOTHING"
        plain = not missing and type(attribute.default).__name__ != "Factory"
        annotation = hints.get(attribute.name, Any)
        members.append(
            Member(attribute.name, attribute.alias, annotation, missing, attribute.default if plain else UNSET)
        )
    return tuple(members)


def _is_marked(
    annotation: Any, test: Callable[[object], bool], enters: Callable[[type], bool], seen: frozenset[Any]
) -> bool:
    kind, arguments = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    if kind is Annotated:
        return any(map(test, arguments[1:])) or _is_marked(arguments[0], test, enters, seen)
    if any(_is_marked(argument, test, enters, seen) for argument in arguments):
        return True
    if not has_members(kind) or kind in seen or not enters(kind):
        return False
    return any(_is_marked(member.annotation, test, enters, seen | {kind}) for member in members_of(kind, {}))


def _is_foreign_to_pydantic(kind: type) -> bool:
    return issubclass(kind, msgspec.Struct) or hasattr(kind, "__attrs_attrs__")


def _marked(annotation: Any, *, otherwise: bool) -> bool:
    """What Required or NotRequired says: Python does not see it in an annotation that is kept as text."""
    mark = getattr(typing.get_origin(annotation), "_name", "")
    return mark == "Required" or (otherwise and mark != "NotRequired")


def _is_typed_dict_of_extensions(kind: type) -> bool:
    """typing_extensions has a TypedDict of its own, which `typing.is_typeddict` does not know."""
    return issubclass(kind, dict) and hasattr(kind, "__required_keys__") and hasattr(kind, "__total__")


def _substituted(annotation: Any, arguments: Mapping[Any, Any]) -> Any:
    if not arguments:
        return annotation
    if annotation in arguments:
        return arguments[annotation]
    parameters = getattr(annotation, "__parameters__", ())
    if not parameters or isinstance(annotation, type):
        return annotation
    return annotation[tuple(arguments.get(parameter, parameter) for parameter in parameters)]
