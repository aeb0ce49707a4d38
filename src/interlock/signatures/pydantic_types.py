"""Pydantic's models and types, for authors who use them. This module never imports pydantic: an author who uses one of
its types has imported it.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any, Literal

from .constraints import Schema

_OWN = "__get_pydantic_core_schema__"
_CHANGES = ("strip_whitespace", "to_upper", "to_lower")


def is_pydantic(kind: object) -> bool:
    """Whether pydantic knows how to read and write this type: a model, a dataclass of its own, or such as HttpUrl."""
    return (hasattr(kind, _OWN) or hasattr(kind, "__pydantic_validator__")) and "pydantic" in sys.modules


def is_any_json(kind: object) -> bool:
    """Whether it is pydantic's type for any JSON value."""
    return getattr(kind, "__name__", "") == "JsonValue" and str(getattr(kind, "__module__", "")).startswith("pydantic")


def validates(mark: object) -> bool:
    """Whether pydantic does more with a value of this mark than a schema can say, as for `AfterValidator`."""
    if "pydantic" not in sys.modules:
        return False
    return hasattr(mark, _OWN) or any(getattr(mark, change, None) is True for change in _CHANGES)


def schema_of(kind: Any, mode: Literal["input", "output"], ref_template: str) -> Schema:
    """The schema as pydantic writes it. Raises pydantic's own errors."""
    if mode == "output":
        return _adapter(kind).json_schema(mode="serialization", ref_template=ref_template)  # type: ignore[no-any-return]
    return _adapter(kind).json_schema(  # type: ignore[no-any-return]
        mode="validation", ref_template=ref_template, schema_generator=_generator()
    )


@functools.cache
def _generator() -> Any:
    """Pydantic's generator, which also writes the names of fields with aliases, in models within models too."""
    importlib.import_module("pydantic.json_schema")
    base: Any = sys.modules["pydantic.json_schema"].GenerateJsonSchema

    class Generator(base):  # type: ignore[misc]
        def model_schema(self, schema: Any) -> Schema:
            return _with_names(schema["cls"], super().model_schema(schema))

        def dataclass_schema(self, schema: Any) -> Schema:
            return _with_names(schema["cls"], super().dataclass_schema(schema))

    return Generator


def _with_names(kind: Any, schema: Schema) -> Schema:
    """The schema of a model with `populate_by_name`, which takes fields by their own names; pydantic leaves it out."""
    config = getattr(kind, "model_config", None) or getattr(kind, "__pydantic_config__", None) or {}
    if not (config.get("populate_by_name") or config.get("validate_by_name")):
        return schema
    properties, required = schema.get("properties"), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return schema
    either: list[Schema] = []
    named = dict(properties)
    for name, field in kind.__pydantic_fields__.items():
        alias = field.validation_alias or field.alias
        if isinstance(alias, str) and alias != name and alias in properties and name not in properties:
            named[name] = properties[alias]
            if alias in required:
                either.append({"anyOf": [{"required": [alias]}, {"required": [name]}]})
    if len(named) == len(properties):
        return schema
    renamed = {key: value for key, value in schema.items() if key != "required"} | {"properties": named}
    given = {name for one in either for name in one["anyOf"][0]["required"]}  # type: ignore[index]
    if rest := [name for name in required if name not in given]:
        renamed["required"] = rest
    if either:
        renamed["allOf"] = either
    return renamed


def loader_of(kind: Any) -> Callable[[Any], Any]:
    """The function that makes a value of the type from JSON; it raises pydantic's ValidationError."""
    if hasattr(kind, "model_validate"):
        load: Callable[[Any], Any] = kind.model_validate
        return load
    validate: Callable[[Any], Any] = _adapter(kind).validate_python
    return validate


def dumped(value: Any) -> object:
    """A value of such a type as JSON holds it."""
    return _adapter(type(value)).dump_python(value, mode="json", by_alias=True)


def _adapter(kind: Any) -> Any:
    return sys.modules["pydantic"].TypeAdapter(kind)
