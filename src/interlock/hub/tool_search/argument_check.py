"""Checks the arguments of the hub's own tools against their input schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from interlock.process.late_imports import late_import
from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json

if TYPE_CHECKING:
    from interlock.signatures.validate import Validator

MAX_PROBLEMS: Final = 5
MAX_PROBLEM_CHARS: Final = 400


class ArgumentCheck:
    """The input schemas of some tools."""

    def __init__(self, schemas: Mapping[str, dict[str, Any]]) -> None:
        self._schemas = schemas
        self._validators: dict[str, Validator] = {}

    def read(self, name: str, raw: bytes) -> dict[str, Any]:
        """The arguments of a call. Raises INVALID_TOOL_ARGS."""
        arguments = decode_json(raw, dict[str, Any], "INVALID_TOOL_ARGS", "arguments")
        self.check(name, arguments)
        return arguments

    def check(self, name: str, arguments: object) -> None:
        """Refuse arguments that do not fit the schema of a tool. Raises INVALID_TOOL_ARGS."""
        validator = self._validators.get(name)
        if validator is None:
            with late_import():
                from interlock.signatures.validate import Validator  # imported late, as it takes six megabytes

            validator = self._validators[name] = Validator(self._schemas[name])
        if problems := validator.check(arguments):
            reasons = "; ".join(found.words for found in problems[:MAX_PROBLEMS])
            raise Fault("INVALID_TOOL_ARGS", f"Invalid arguments: {reasons[:MAX_PROBLEM_CHARS]}")
