"""Signatures: from a typed Python function to a tool's schemas, and from a call's JSON to the function's values.

Pure: no I/O, no clock. Every error that leaves is a `SignatureError`.
"""

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
from .examples import examples as examples
from .fields import InputField as InputField
from .fields import OutputField as OutputField
from .problems import ArgumentsError as ArgumentsError
from .problems import DefinitionError as DefinitionError
from .problems import Problem as Problem
from .problems import SignatureError as SignatureError
from .signature import Signature as Signature
from .validate import Validator as Validator

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
    "examples",
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
