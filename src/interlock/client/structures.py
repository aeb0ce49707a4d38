"""Checks structured results against the output schemas of their tools.

(2025-11-25 and 2026-07-28, Tools: Output Schema.)
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from interlock.signatures.problems import ArgumentsError, DefinitionError
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from interlock.signatures.validate import Validator

log = logging.getLogger("interlock.client")

COMPILED: Final = 256


class OutputSchemas:
    """The output schemas of a server's tools, each compiled when its tool is first called."""

    def __init__(self) -> None:
        self._schemas: dict[str, object] = {}
        self._compiled: dict[str, Validator | None] = {}

    def promise(self, tools: Iterable[Mapping[str, object]]) -> None:
        """Replace the output schemas with those of a new list."""
        self._schemas = {str(tool.get("name")): tool["outputSchema"] for tool in tools if "outputSchema" in tool}
        self._compiled.clear()

    def check(self, tool: str, result: Mapping[str, object]) -> None:
        """Raise UPSTREAM_ERROR for a result that does not fit its tool's output schema. Errors need not fit."""
        if tool not in self._schemas or result.get("isError") is True or result.get("resultType") == "task":
            return
        validator = self._validator(tool)
        if validator is None:
            return
        if "structuredContent" not in result:
            raise Fault("UPSTREAM_ERROR", f"{tool} has an output schema, and returned no structured content")
        problems = validator.check(result["structuredContent"])
        if problems:
            raise Fault(
                "UPSTREAM_ERROR", f"{tool} returned content that its output schema refuses: {ArgumentsError(problems)}"
            )

    def _validator(self, tool: str) -> Validator | None:
        if tool not in self._compiled:
            from interlock.signatures.validate import Validator  # six megabytes, loaded with the first schema

            if len(self._compiled) >= COMPILED:
                self._compiled.clear()
            schema = self._schemas[tool]
            try:
                self._compiled[tool] = Validator(schema if isinstance(schema, dict | bool) else {})
            except DefinitionError as cause:
                log.warning("the output schema of %r cannot be used: %s", tool, cause)
                self._compiled[tool] = None
        return self._compiled[tool]
