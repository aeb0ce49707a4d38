"""A tool: how it is listed, how its arguments are read, and how it is called."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Unpack, get_args

import msgspec

from interlock.protocols.mcp.headers import BadParamHeader, ParamHeader, param_headers
from interlock.protocols.mcp.revisions import Revision
from interlock.protocols.mcp.tasks import Support
from interlock.protocols.mgp.security import problem_in
from interlock.protocols.registry.about import ABOUT, NOTHING_DECLARED, ToolMetadata
from interlock.server.definitions import results
from interlock.server.definitions.checks import ToolOverdue, run_check
from interlock.server.definitions.offer import OfferedFunction, check_options, name_of, shown
from interlock.server.definitions.options import From, ToolOptions
from interlock.server.requests.content import ToolError, ToolResult, present
from interlock.server.requests.work import RunningServer, Work
from interlock.signatures import ArgumentsError, DefinitionError, Problem, SignatureError
from interlock.signatures.constraints import Schema
from interlock.signatures.examples import examples as make_examples
from interlock.signatures.problems import shown as quoted
from interlock.wire.errors import Fault

log = logging.getLogger("interlock.server")

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}\Z")
_encode = msgspec.json.Encoder().encode


class Tool(OfferedFunction):
    """A function offered as a tool."""

    __slots__ = ("_timeout_s", "_validators", "about", "at_once", "headers", "task", "task_from")

    def __init__(self, function: Callable[..., Any], **options: Unpack[ToolOptions]) -> None:
        check_options("a tool", options, ToolOptions)
        super().__init__(name_of(function, options), function, options, options.get("input_schema"))
        if not _NAME.match(self.key):
            name = f"{self.key!r} is no tool name: 1 to 128 letters, digits, '_', '-' and '.'"
            raise DefinitionError(f"{self.where}: {name}")
        self.about = _about(options)
        self._validators = tuple(options.get("validators", ()))
        self._timeout_s = options.get("timeout_s")
        self.task: Support = options.get("task", "forbidden")
        """Whether it can be called as a task."""
        self.task_from: From = options.get("task_from", "start")
        self._check_options(options.get("security"))
        self.at_once = self._function.at_once and self.task == "forbidden"
        """Whether a call never waits, so that it needs no asyncio task."""
        schema = self._input_schema(options)
        written = options.get("headers") or options.get("input_schema")
        self.headers: tuple[ParamHeader, ...] = self._header_params(schema) if written else ()
        self._entries = self._listed(schema, options)
        self._check_examples()

    @property
    def examples(self) -> tuple[Mapping[str, Any], ...]:
        """Arguments that the author gave as examples; each fits."""
        return self.about.examples

    @property
    def definition(self) -> dict[str, Any]:
        """Its entry in `tools/list`, decoded."""
        return msgspec.json.decode(self._entries[True], type=dict[str, Any])

    def make_examples(self, count: int = 2) -> list[Mapping[str, object]]:
        """The author's examples, or arguments made from the constraints. Each passes every check of a call."""
        if self.examples:
            return list(self.examples[:count])
        made = make_examples(self.definition["inputSchema"], count + 4)
        return [example for example in made if not self.check(example)][:count]

    def check(self, arguments: dict[str, Any]) -> tuple[Problem, ...]:
        """The problems of a call's arguments, without a call."""
        try:
            self._arguments(arguments)
        except ArgumentsError as error:
            return error.problems
        return ()

    async def invoke(self, work: Work, arguments: dict[str, Any]) -> Any:
        """Run it for its value as JSON. Raises ArgumentsError, ToolError, or any error of the function."""
        value = await self._run(work, self._arguments(arguments))
        return value if isinstance(value, ToolResult) else self._plain(value)

    async def call(self, work: Work, arguments: dict[str, Any]) -> bytes:
        """Run it: the members of a CallToolResult. Raises a Fault where the request itself cannot be served."""
        values = self._values(arguments)
        if isinstance(values, bytes):
            return values
        try:
            value = await self._run(work, values)
            members = self._result(value, work.server, work.dialect.revision)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # its caller must be answered, and no other call may end with it
            members = self._failed(error)
        return members if work.stream is None else b"%b,%b" % (members, work.stream.member())

    def call_at_once(self, server: RunningServer, revision: Revision, arguments: dict[str, Any]) -> bytes:
        """The members of the result, for a tool whose function never waits and needs no task."""
        values = self._values(arguments)
        if isinstance(values, bytes):
            return values
        try:
            return self._result(self._function.run_at_once(values), server, revision)
        except BaseException as error:
            return self._failed(error)

    def _values(self, arguments: dict[str, Any]) -> dict[str, object] | bytes:
        """The function's arguments, or the result that says why they do not fit."""
        try:
            return self._arguments(arguments)
        except ArgumentsError as error:
            return results.unfit(error)
        except BaseException as error:
            return self._failed(error)

    def _arguments(self, given: dict[str, Any]) -> dict[str, object]:
        """The function's arguments, once the schema and every validator of the author's have passed them."""
        values = self._function.arguments(given)
        for validator in self._validators:
            if found := run_check(validator, values):
                raise ArgumentsError(found)
        return values

    async def _run(self, work: Work, values: dict[str, object]) -> Any:
        if self._timeout_s is None:
            return await self._function.run(work, values)
        try:
            async with work.limited(self._timeout_s):
                return await self._function.run(work, values)
        except TimeoutError:
            if not work.overdue:
                raise
            raise ToolOverdue(self.key, self._timeout_s) from None

    def _failed(self, error: BaseException) -> bytes:
        """The result of a failed call. An exception's message may hold secrets, so it only goes to the log."""
        match error:
            case ToolError():
                return results.error(str(error) or f"{self.key} failed")
            case ToolOverdue():
                return results.overdue(error)
            case Fault():
                raise error
        log.error("tool %s failed", self.key, exc_info=(type(error), error, _from_the_author(error.__traceback__)))
        return results.error(f"{self.key} failed with {type(error).__name__}; the server's log says why")

    def _plain(self, value: object) -> Any:
        """The function's value as JSON, checked against the tool's own output schema."""
        signature = self._function.signature
        if type(value) is signature.plain_result:
            return value
        plain = signature.encode(value, wrap=False)
        validator = signature.output_validator
        if validator is not None and (problems := validator.check(plain)):
            raise SignatureError(f"its result does not fit its own outputSchema: {problems[0].reason}", problems)
        return plain

    def _result(self, value: object, server: RunningServer, revision: Revision) -> bytes:
        if isinstance(value, ToolResult):
            return self._whole(value, server, revision)
        signature = self._function.signature
        if signature.output is None:
            return results.untyped(value, revision)
        return results.typed(value, self._plain(value), revision, wrap=signature.wraps_result and not revision.modern)

    def _whole(self, result: ToolResult, server: RunningServer, revision: Revision) -> bytes:
        """A result that the author made. Unless it is an error, it too must fit the output schema."""
        signature = self._function.signature
        promised = signature.output is not None and not result.is_error
        structured: object = result.structured
        if structured is not msgspec.UNSET:
            structured = self._plain(structured) if promised else signature.encode(structured, wrap=False)
        elif promised:
            raise SignatureError("its result has no structured content, which its own outputSchema promises")
        wrap = not revision.modern and (signature.wraps_result if promised else not isinstance(structured, dict))
        return results.whole(result, structured, revision, server.signed_meta if revision.modern else {}, wrap=wrap)

    def _input_schema(self, options: ToolOptions) -> Schema:
        own = options.get("input_schema")
        schema = self._function.signature.input_schema() if own is None else own
        properties = schema.get("properties")
        for name, header in (options.get("headers") or {}).items():
            if not isinstance(properties, dict) or not isinstance(properties.get(name), dict):
                raise DefinitionError(f"{self.where}: headers names {name!r}, which is no parameter")
            properties[name] = {**properties[name], "x-mcp-header": header}
        return schema

    def _header_params(self, schema: Schema) -> tuple[ParamHeader, ...]:
        try:
            return param_headers(schema)
        except BadParamHeader as error:
            raise DefinitionError(f"{self.where}: {error}") from error

    def _listed(self, schema: Schema, options: ToolOptions) -> tuple[bytes, bytes]:
        """Its entries for clients of the handshake era and of the stateless era."""
        signature = self._function.signature
        about = {} if self.about == NOTHING_DECLARED else {ABOUT: self.about}
        row = shown(
            options,
            name=self.key,
            description=self._description,
            inputSchema=schema,
            outputSchema=signature.output_schema(wrap=True),
            annotations=options.get("hints"),
            security=options.get("security"),
            _meta={**(options.get("meta") or {}), **about} or None,
        )
        # Only 2025-11-25 has this: in the stateless era a server decides by itself.
        support = {} if self.task == "forbidden" else {"execution": {"taskSupport": self.task}}
        old, new = {**row, **support}, {**row, **present(outputSchema=signature.output_schema(wrap=False))}
        encoded = _encode(old)
        return encoded, encoded if old == new else _encode(new)

    def _check_options(self, security: Mapping[str, object] | None) -> None:
        if security is not None and (problem := problem_in(security)):
            raise DefinitionError(f"{self.where}: security: {problem}")
        seconds: object = self._timeout_s
        if seconds is not None and not (isinstance(seconds, int | float) and seconds > 0):
            raise DefinitionError(f"{self.where}: timeout_s is seconds, more than 0, not {quoted(seconds)}")
        if self.task not in get_args(Support):
            raise DefinitionError(f"{self.where}: task is {_either(Support)}, not {quoted(self.task)}")
        if self.task_from not in get_args(From):
            raise DefinitionError(f"{self.where}: task_from is {_either(From)}, not {quoted(self.task_from)}")
        for validator in self._validators:
            if not callable(validator):
                raise DefinitionError(f"{self.where}: a validator is a function, not {quoted(validator)}")

    def _check_examples(self) -> None:
        for number, example in enumerate(self.examples, 1):
            if problems := self.check(dict(example)):
                place = problems[0].field or "arguments"
                raise DefinitionError(f"{self.where}: example {number}: {place}: {problems[0].reason}", problems)


def _either(values: object) -> str:
    """The values of a `Literal`, for people."""
    return " or ".join(map(quoted, get_args(values)))


def _from_the_author(trace: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that begins in the author's own code."""
    inner = trace
    while inner is not None and inner.tb_frame.f_globals.get("__package__") == __package__:
        inner = inner.tb_next
    return inner or trace


def _about(options: Mapping[str, Any]) -> ToolMetadata:
    given = {name: options[name] for name in ToolMetadata.__struct_fields__ if name in options}
    for name in ("tags", "examples"):
        given[name] = tuple(given.get(name, ()))
    return ToolMetadata(**given)
