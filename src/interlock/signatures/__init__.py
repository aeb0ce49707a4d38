"""Signatures: from a typed Python function to a tool's schemas, and from a call's JSON to the function's values.

Pure: no I/O, no clock. Every error that leaves is a `SignatureError`. Each name is imported when it is first used, so
that a program that only checks values against a schema does not load the reader of functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .constraints import Constraint as Constraint
    from .constraints import (
        above,
        below,
        max_length,
        max_value,
        min_length,
        min_value,
        multiple_of,
        one_of,
        pattern,
        satisfies,
        text_format,
    )
    from .fields import InputField as InputField
    from .fields import OutputField as OutputField
    from .problems import ArgumentsError as ArgumentsError
    from .problems import DefinitionError as DefinitionError
    from .problems import Problem as Problem
    from .problems import SignatureError as SignatureError
    from .signature import Signature as Signature
    from .validate import Validator as Validator

_HOMES = {
    "ArgumentsError": "problems",
    "Constraint": "constraints",
    "DefinitionError": "problems",
    "InputField": "fields",
    "OutputField": "fields",
    "Problem": "problems",
    "Signature": "signature",
    "SignatureError": "problems",
    "Validator": "validate",
    "above": "constraints",
    "below": "constraints",
    "max_length": "constraints",
    "max_value": "constraints",
    "min_length": "constraints",
    "min_value": "constraints",
    "multiple_of": "constraints",
    "one_of": "constraints",
    "pattern": "constraints",
    "satisfies": "constraints",
    "text_format": "constraints",
}

__all__ = [
    "ArgumentsError",
    "Constraint",
    "DefinitionError",
    "InputField",
    "OutputField",
    "Problem",
    "Signature",
    "SignatureError",
    "Validator",
    "above",
    "below",
    "max_length",
    "max_value",
    "min_length",
    "min_value",
    "multiple_of",
    "one_of",
    "pattern",
    "satisfies",
    "text_format",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
