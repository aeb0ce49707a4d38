"""The members of a class that JSON can carry: dataclass, msgspec struct, attrs class, TypedDict, NamedTuple."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeGuard

import msgspec
from msgspec import UNSET

from .marks import checks_of
from .pydantic_types import validates
from .typed_checks import typed_checks

_QUALIFIERS = frozenset({"Required", "NotRequired", "ReadOnly", "Final"})


class Member(msgspec.Struct, frozen=True):
    """One member: its name in Python and on the wire, its annotation, and its default if it has a plain one."""

    name: str
    wire_name: str
    annotation: Any
    required: bool
    default: Any = UNSET


def has_members(kind: object) -> TypeGuard[type]:
    """Whether this module can list the members of a class. Pydantic itself handles its own dataclasses."""
    return (
        isinstance(kind, type)
        and not hasattr(kind, "__pydantic_validator__")
        and (
            any(hasattr(kind, mark) for mark in ("__dataclass_fields__", "__struct_fields__", "__attrs_attrs__"))
            # typing_extensions has a TypedDict of its own, which `typing.is_typeddict` does not know.
            or (issubclass(kind, dict) and hasattr(kind, "__required_keys__") and hasattr(kind, "__total__"))
            or is_named_tuple(kind)
        )
    )


def is_named_tuple(kind: type) -> bool:
    """Whether the class is a NamedTuple, which travels as an array."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def members_of(kind: type, arguments: Mapping[Any, Any]) -> tuple[Member, ...]:
    """The members in order, with type variables replaced by the arguments of a generic alias.

    Raises NameError or TypeError for annotations that cannot be read; the caller knows where they are.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    hints = {name: _substituted(annotation, arguments) for name, annotation in hints.items()}
    if issubclass(kind, msgspec.Struct):
        return tuple(
            Member(
                field.name,
                field.encode_name,
                hints[field.name],
                field.required,
                _plain(field.default, msgspec.NODEFAULT),
            )
            for field in msgspec.structs.fields(kind)
        )
    if dataclasses.is_dataclass(kind):
        missing = dataclasses.MISSING
        return tuple(
            Member(
                field.name,
                field.name,
                hints[field.name],
                field.default is missing and field.default_factory is missing,
                _plain(field.default, missing),
            )
            for field in dataclasses.fields(kind)
            if field.init
        )
    if hasattr(kind, "__attrs_attrs__"):
        return tuple(
            Member(
                field.name,
                field.alias,
                hints.get(field.name, Any),
                type(field.default).__name__ == "_Nothing",
                UNSET if type(field.default).__name__ in ("_Nothing", "Factory") else field.default,
            )
            for field in kind.__attrs_attrs__
            if field.init
        )
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


def holds_class_defaults(annotation: Any) -> bool:
    """Whether a dataclass that keeps a default in its class occurs anywhere in a type.

    msgspec leaves such a default in the class when it makes an instance, and does not find it when it encodes one.
    """
    return any(
        dataclasses.is_dataclass(kind)
        and "__slots__" not in kind.__dict__
        and any(field.default is not dataclasses.MISSING for field in dataclasses.fields(kind))
        for kind, _ in _types_in(annotation, has_members)
    )


def holds_validators(annotation: Any) -> bool:
    """Whether a validator of pydantic's occurs anywhere in a type that pydantic can read."""

    def enters(kind: object) -> bool:
        return has_members(kind) and not issubclass(kind, msgspec.Struct) and not hasattr(kind, "__attrs_attrs__")

    return any(validates(mark) for _, marks in _types_in(annotation, enters) for mark in marks)


def holds_checks(annotation: Any) -> bool:
    """Whether a check that only code can make occurs anywhere in a type."""
    found = _types_in(annotation, has_members)
    return any(typed_checks(kind, marks) or any(checks_of([mark]) for mark in marks) for kind, marks in found)


def unwrapped(annotation: Any) -> Any:
    """The type that a NewType, a TypeVar or a qualifier such as `Required` stands for, or the annotation itself."""
    if isinstance(annotation, typing.NewType):
        return annotation.__supertype__
    if isinstance(annotation, typing.TypeVar):
        return Any if annotation.__bound__ is None else annotation.__bound__
    if getattr(typing.get_origin(annotation), "_name", None) in _QUALIFIERS:
        return typing.get_args(annotation)[0]
    return annotation


def alias_value(annotation: Any) -> Any:
    """The type that a `type` alias stands for, with its arguments; UNSET for anything else."""
    alias, arguments = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    if type(alias).__name__ != "TypeAliasType":
        return UNSET
    return alias.__value__[arguments] if arguments else alias.__value__


def summary_of(kind: type) -> str:
    """The first paragraph of the class's own docstring, unless Python generated it."""
    text = kind.__dict__.get("__doc__")
    if not isinstance(text, str) or text.startswith((f"{kind.__name__}(", "Create a collection of name/value pairs")):
        return ""
    return " ".join(inspect.cleandoc(text).split("\n\n")[0].split())


def _types_in(
    annotation: Any, enters: Callable[[object], bool], seen: set[object] | None = None
) -> Iterator[tuple[Any, Sequence[Any]]]:
    """Every type in an annotation with the marks beside it, also in members of classes for which `enters` is true."""
    seen = set() if seen is None else seen
    kind, arguments = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    marks: Sequence[Any] = ()
    if kind is Annotated:
        arguments, marks = arguments[:1], arguments[1:]
    yield arguments[0] if kind is Annotated else kind, marks
    if enters(kind) and kind not in seen:
        seen.add(kind)
        arguments = (*arguments, *(member.annotation for member in members_of(kind, {})))
    for argument in arguments:
        yield from _types_in(argument, enters, seen)


def _plain(default: Any, missing: object) -> Any:
    return UNSET if default is missing else default


def _marked(annotation: Any, *, otherwise: bool) -> bool:
    """Whether a member is required: Python does not see the qualifier in an annotation that is kept as text."""
    mark = getattr(typing.get_origin(annotation), "_name", "")
    return mark == "Required" or (otherwise and mark != "NotRequired")


def _substituted(annotation: Any, arguments: Mapping[Any, Any]) -> Any:
    if not arguments:
        return annotation
    if annotation in arguments:
        return arguments[annotation]
    parameters = getattr(annotation, "__parameters__", ())
    if not parameters or isinstance(annotation, type):
        return annotation
    return annotation[tuple(arguments.get(parameter, parameter) for parameter in parameters)]
