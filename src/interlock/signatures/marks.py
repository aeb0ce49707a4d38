"""Reads the marks beside the type in `Annotated[type, ...]`: our own and those of other libraries.

Other libraries are recognised by the attributes they share (`ge`, `min_length`, ...), so none has to be imported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import UNSET

from .constraints import Constraint, Keyword, Satisfies, checks_in
from .fields import InputField, OutputField
from .problems import DefinitionError

_FOREIGN = frozenset({"annotated_types", "msgspec", "pydantic", "pydantic_core"})
_KEYWORDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
}


def marks_of(metadata: Iterable[object]) -> InputField:
    """All marks of one annotation as one field without name and type; a later mark overrides an earlier one."""
    fields = [_read(mark) for mark in metadata]
    return functools.reduce(_overlay, fields) if fields else InputField()


def checks_of(metadata: Iterable[object]) -> tuple[Satisfies, ...]:
    """The checks among the marks that only code can make."""
    return checks_in(marks_of(metadata).constraints)


def _read(mark: object) -> InputField:
    if isinstance(mark, InputField):
        return mark
    if isinstance(mark, OutputField):
        return InputField(description=mark.description, schema=mark.schema)
    if isinstance(mark, Constraint):
        return InputField(constraints=(mark,))
    documentation = getattr(mark, "documentation", mark)
    if isinstance(documentation, str):
        return InputField(description=documentation)
    if type(mark).__module__.partition(".")[0] in _FOREIGN:
        return _read_foreign(mark)
    return InputField()


def _read_foreign(mark: object) -> InputField:
    constraints: list[Constraint] = []
    for attribute, keyword in _KEYWORDS.items():
        value = getattr(mark, attribute, None)
        if value is not None and not (attribute == "min_length" and value == 0):
            constraints.append(Keyword(keyword, _plain(value, keyword)))
    constraints += _read_predicate(mark)
    inner = map(_read, getattr(mark, "metadata", None) or ())
    field = functools.reduce(_overlay, inner, InputField(constraints=tuple(constraints)))
    default = getattr(mark, "default", UNSET)
    if getattr(mark, "default_factory_takes_validated_data", False):
        raise DefinitionError("its default_factory wants the other arguments; make the default in the function")
    return msgspec.structs.replace(
        field,
        description=_text(mark, "description") or field.description,
        examples=tuple(getattr(mark, "examples", None) or field.examples),
        default=UNSET if type(default).__name__ == "PydanticUndefinedType" or default is ... else default,
        default_factory=getattr(mark, "default_factory", None),
    )


def _plain(value: object, keyword: str) -> object:
    """A bound as JSON Schema holds it: a compiled expression becomes its source."""
    value = getattr(value, "pattern", value)
    if isinstance(value, int | float | str):
        return value
    raise DefinitionError(f"{keyword} must be a number or a text in a schema, not {type(value).__name__}")


def _read_predicate(mark: object) -> list[Constraint]:
    if type(mark).__module__ != "annotated_types":
        return []  # a function for pydantic returns a value, and not whether it fits
    check: Callable[[Any], bool] | None = getattr(mark, "func", None)
    if not callable(check):
        return []
    name = getattr(check, "__qualname__", "the predicate").replace("<lambda>", "the predicate")
    return [Satisfies(check, f"does not satisfy {name}")]


def _text(mark: object, attribute: str) -> str:
    value = getattr(mark, attribute, None)
    return value if isinstance(value, str) else ""


def _overlay(under: InputField, over: InputField) -> InputField:
    blank = InputField()
    given = {
        name: value
        for name in InputField.__struct_fields__
        if (value := getattr(over, name)) is not getattr(blank, name) and value != getattr(blank, name)
    }
    given["constraints"] = under.constraints + over.constraints
    return msgspec.structs.replace(under, **given)
