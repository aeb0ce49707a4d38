"""The schema gate: a tool's arguments must fit the schema its server gave, before the server sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Call, Check
from interlock.hub.calls.verdicts import PASS, Refuse, Verdict
from interlock.hub.catalog.target import Target
from interlock.protocols.registry.errors import told
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from interlock.signatures.validate import Validator


class SchemaGate:
    """Refuses a tool whose schema cannot be used, and arguments that do not fit."""

    name = "schema"

    def plan(self, principal: Principal, target: Target) -> Verdict:
        """A schema that is wrong, or points outside itself, cannot be checked: the tool cannot be called."""
        if target.tool is None:
            return PASS
        validator = target.tool.validator()
        if not isinstance(validator, str):
            return PASS
        fault = Fault("TOOL_DISABLED", f"the tool's input schema cannot be used: {validator}")
        return Refuse(fault, "a schema must be usable as it stands")

    def check(self, target: Target) -> Check | None:
        """The compiled schema, asked first whether all is well; what is wrong is only worked out when something is."""
        if target.tool is None:
            return None
        validator = target.tool.validator()
        if isinstance(validator, str):
            return None
        return Fits(validator)


class Fits:
    """The check of one schema."""

    __slots__ = ("_validator", "accepts")

    def __init__(self, validator: Validator) -> None:
        self._validator = validator
        self.accepts = validator.accepts
        """Whether arguments fit, and nothing more."""

    def __call__(self, call: Call) -> Verdict:
        """What is wrong with a call's arguments, if anything is."""
        arguments = call.arguments
        try:
            if self.accepts(arguments):
                return PASS
        except ValueError:
            pass  # `check` says what is wrong.
        found = self._validator.check(arguments)
        summary = "; ".join(problem.words for problem in found[:5])
        problems = [told(problem) for problem in found]
        fault = Fault("INVALID_TOOL_ARGS", f"Invalid arguments: {summary}", data={"problems": problems})
        return Refuse(fault, "arguments must fit the tool's input schema")
