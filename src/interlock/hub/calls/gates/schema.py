"""The schema gate: a tool's arguments must fit the schema its server gave, before the server sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from interlock.config.settings import ServerSettings
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Call, Check
from interlock.hub.calls.verdicts import PASS, Refuse, Verdict
from interlock.hub.catalog.target import Target
from interlock.protocols.registry.errors import problem_data
from interlock.signatures.coerce import coerced
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from interlock.signatures.validate import Validator


class SchemaGate:
    """Refuses a tool whose schema cannot be used, and arguments that do not fit.

    For servers with `coerce`, arguments that do not fit are converted first.
    """

    name = "schema"

    def __init__(self, servers: Mapping[str, ServerSettings]) -> None:
        self._coercing = frozenset(name for name, server in servers.items() if server.coerce)

    def plan(self, principal: Principal, target: Target) -> Verdict:
        """A schema that is wrong, or points outside itself, cannot be checked: the tool cannot be called."""
        if target.tool is None:
            return PASS
        validator = target.tool.validator()
        if not isinstance(validator, str):
            return PASS
        fault = Fault("TOOL_DISABLED", f"the tool's input schema cannot be used: {validator}")
        return Refuse(fault, "a tool's input schema must be usable")

    def check(self, target: Target) -> Check | None:
        """The check with the compiled schema. It looks for the problems only where arguments do not fit."""
        if target.tool is None:
            return None
        validator = target.tool.validator()
        if isinstance(validator, str):
            return None
        return SchemaCheck(validator, target.tool.schema if target.server in self._coercing else None)


class SchemaCheck:
    """Holds the arguments of a call to the input schema of its tool."""

    __slots__ = ("_schema", "_validator", "accepts")

    def __init__(self, validator: Validator, schema: bytes | None = None) -> None:
        self._validator = validator
        self._schema = schema
        """The schema to which arguments are converted; None where they are not."""
        self.accepts = validator.accepts
        """Whether arguments fit, and nothing more."""

    def __call__(self, call: Call) -> Verdict:
        """Refuse arguments that do not fit, with the problems."""
        arguments = call.arguments
        try:
            if self.accepts(arguments):
                return PASS
            if self._schema is not None:
                converted, paths = coerced(msgspec.json.decode(self._schema), arguments)
                if paths and self.accepts(converted):
                    call.replace_arguments(converted, paths, call.masked)
                    return PASS
        except ValueError:
            pass  # `check` says what is wrong.
        found = self._validator.check(arguments)
        summary = "; ".join(problem.words for problem in found[:5])
        problems = [problem_data(problem) for problem in found]
        fault = Fault("INVALID_TOOL_ARGS", f"Invalid arguments: {summary}", data={"problems": problems})
        return Refuse(fault, "arguments must fit the tool's input schema")
