"""The inputs and the output of a signature, written by hand or inside `Annotated[...]`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from .constraints import Constraint, Keyword, Schema

_CONSTRAINT_KEYWORDS = {
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
    "min_value": "minimum",
    "max_value": "maximum",
}


class InputField(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of a tool, as the tool registry's "InputField" table describes it.

    By hand: `InputField(name="days", type=int, min_value=1)`. On a parameter, where the function says the rest:
    `Annotated[int, InputField(min_value=1)]`.
    """

    name: str = ""
    type: Any = UNSET
    description: str = ""
    default: Any = UNSET
    default_factory: Callable[[], Any] | None = None
    """Makes the default, anew for each call."""
    required: bool | None = None
    """Whether a caller has to give it; by default, a field without a default is required."""
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    min_value: float | None = None
    max_value: float | None = None
    choices: tuple[Any, ...] = ()
    format: str = ""
    examples: tuple[Any, ...] = ()
    secret: bool = False
    """Never quoted in an error, and marked `writeOnly` in the schema."""
    constraints: tuple[Constraint, ...] = ()
    """Further constraints, composed with `&`, `|` and `~`."""
    schema: Schema | None = None
    """The whole schema, where a type and constraints cannot express it."""

    @property
    def is_required(self) -> bool:
        optional = self.default is not UNSET or self.default_factory is not None
        return not optional if self.required is None else self.required

    def all_constraints(self) -> tuple[Constraint, ...]:
        """The constraints of the single attributes, then the composed ones."""
        named = [
            Keyword(keyword, value)
            for attribute, keyword in _CONSTRAINT_KEYWORDS.items()
            if (value := getattr(self, attribute)) is not None
        ]
        if self.choices:
            named.append(Keyword("enum", list(self.choices)))
        if self.format:
            named.append(Keyword("format", self.format))
        return (*named, *self.constraints)

    def decorate(self, schema: Schema) -> Schema:
        """The schema with the description, the examples and the mark of a secret."""
        more = {"description": self.description, "examples": list(self.examples), "writeOnly": self.secret}
        return {**schema, **{keyword: value for keyword, value in more.items() if value}}


class OutputField(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a tool. On a function: `-> Annotated[Report, OutputField(description="...")]`."""

    type: Any = UNSET
    description: str = ""
    schema: Schema | None = None
    """The whole schema, where a type cannot express it."""
