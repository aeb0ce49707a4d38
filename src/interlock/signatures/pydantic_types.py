"""Pydantic's models and types, for authors who use them. Pydantic is never imported here: an annotation of its making
means that the author did.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal

from .constraints import Schema


def is_pydantic(kind: object) -> bool:
    """Whether pydantic knows how to read and write this type: a model, or one of its own such as HttpUrl."""
    return hasattr(kind, "__get_pydantic_core_schema__") and "pydantic" in sys.modules


def schema_of(kind: Any, mode: Literal["input", "output"], ref_template: str) -> Schema:
    """The schema as pydantic writes it; raises whatever pydantic raises."""
    written: Schema = _adapter(kind).json_schema(
        mode="validation" if mode == "input" else "serialization", ref_template=ref_template
    )
    return written


def loader_of(kind: Any) -> Callable[[Any], Any]:
    """What makes a value of the type out of JSON; raises pydantic's ValidationError."""
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
