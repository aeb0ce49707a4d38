"""Checks values against JSON Schema, compiled once. The happy path is one call; details are computed only on failure.

A schema is somebody else's text: no reference is fetched, no pattern runs without a bound, size and depth are capped.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import jsonschema_rs

from .constraints import Schema
from .problems import MAX_PROBLEMS, DefinitionError, Problem, shown

_LINEAR = jsonschema_rs.RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 20)


class Validator:
    """One compiled schema."""

    __slots__ = ("_compiled", "is_valid", "schema")

    def __init__(self, schema: Schema | bool) -> None:
        self.schema = schema
        try:
            self._compiled: Any = jsonschema_rs.validator_for(schema, pattern_options=_LINEAR, offline=True)
        except ValueError as error:
            raise DefinitionError(f"not a usable JSON Schema: {str(error).splitlines()[0]}") from error
        self.is_valid = self._compiled.is_valid

    def check(self, value: object) -> tuple[Problem, ...]:
        """What is wrong with the value; nothing if it fits."""
        try:
            if self.is_valid(value):
                return ()
            errors = list(islice(self._compiled.iter_errors(value), MAX_PROBLEMS))
        except ValueError as error:
            return (Problem((), f"not a JSON value: {error}", "a JSON value", shown(value)),)
        return tuple(
            Problem(tuple(error.instance_path), error.message, got=shown(error.instance), keyword=error.kind.name)
            for error in errors
        )
