"""A tool: how it is listed, how its arguments are read, and how whatever it returns becomes an MCP result."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from interlock.protocols.mcp.headers import BadParamHeader, ParamHeader, param_headers
from interlock.protocols.mcp.revisions import Revision
from interlock.protocols.mcp.tasks import Support
from interlock.protocols.registry.catalog import ABOUT, NOTHING_SAID, About
from interlock.protocols.registry.errors import told
from interlock.server.checks import ArgumentsCheck, Overdue, found_by
from interlock.server.content import CONTENT_TYPES, Icon, Meta, Text, ToolError, ToolHints, ToolResult, fitting
from interlock.server.functions import Function
from interlock.server.task_desk import From
from interlock.server.work import Work
from interlock.signatures import ArgumentsError, DefinitionError, Problem, SignatureError
from interlock.signatures import examples as make_examples
from interlock.signatures.type_schema import as_json
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from interlock.server.server import Server

log = logging.getLogger("interlock.server")

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}\Z")
_encode = msgspec.json.Encoder().encode


class Tool:
    """A function offered as a tool."""

    __slots__ = (
        "_entries",
        "_function",
        "_timeout_s",
        "_validators",
        "about",
        "examples",
        "headers",
        "key",
        "task",
        "task_from",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        hints: ToolHints | None = None,
        icons: Sequence[Icon] = (),
        headers: Mapping[str, str] | None = None,
        security: Mapping[str, object] | None = None,
        meta: Meta | None = None,
        input_schema: dict[str, object] | None = None,
        category: str | None = None,
        tags: Sequence[str] = (),
        version: str | None = None,
        deprecated: bool | str = False,
        author: str | None = None,
        documentation_url: str | None = None,
        validators: Sequence[ArgumentsCheck] = (),
        examples: Sequence[Mapping[str, object]] = (),
        timeout_s: float | None = None,
        task: Support = "forbidden",
        task_from: From = "start",
    ) -> None:
        self.key = name or str(getattr(function, "__name__", ""))
        if not _NAME.match(self.key):
            raise DefinitionError(f"{self.key!r} is no tool name: 1 to 128 letters, digits, '_', '-' and '.'")
        self.about = About(
            category=category,
            tags=tuple(tags),
            version=version,
            deprecated=deprecated,
            author=author,
            documentation_url=documentation_url,
        )
        self._function = Function(function, input_schema)
        self._validators = tuple(validators)
        self._timeout_s = timeout_s
        self.task: Support = task
        """Whether it can be called as a task."""
        self.task_from: From = task_from
        signature = self._function.signature
        schema = signature.input_schema() if input_schema is None else input_schema
        _mirror(schema, headers or {})
        self.headers: tuple[ParamHeader, ...] = _header_params(self.key, schema)
        entry: dict[str, object] = {"name": self.key}
        if title is not None:
            entry["title"] = title
        entry["description"] = signature.description if description is None else description
        entry["inputSchema"] = schema
        more: dict[str, object] = {}
        if hints is not None:
            more["annotations"] = hints
        if icons:
            more["icons"] = icons
        if security is not None:
            more["security"] = security
        said: dict[str, object] = dict(meta or {})
        if self.about != NOTHING_SAID:
            said[ABOUT] = self.about
        if said:
            more["_meta"] = said
        wrapped, plain = (
            {**entry, **({} if output is None else {"outputSchema": output}), **more}
            for output in (signature.output_schema(wrap=True), signature.output_schema(wrap=False))
        )
        if task != "forbidden":
            # Only 2025-11-25 has this: in the stateless era a server decides by itself.
            wrapped["execution"] = {"taskSupport": task}
        self._entries = (_encode(wrapped), _encode(plain))

        self.examples: tuple[Mapping[str, object], ...] = self._checked(examples) if examples else ()
        """Arguments that the author gave as examples; each fits."""

    def entry(self, modern: bool) -> bytes:
        """Its row in `tools/list`. Revisions before 2026-07-28 only take objects as structured content."""
        return self._entries[modern]

    @property
    def definition(self) -> dict[str, Any]:
        """The same as an object."""
        return msgspec.json.decode(self._entries[True], type=dict[str, Any])

    def make_examples(self, count: int = 2) -> list[Mapping[str, object]]:
        """The author's examples, or arguments made from the constraints. Each passes every check of a call."""
        if self.examples:
            return list(self.examples[:count])
        made = make_examples(self.definition["inputSchema"], count + 4)
        return [example for example in made if not self.check(example)][:count]

    def check(self, arguments: dict[str, Any]) -> tuple[Problem, ...]:
        """What is wrong with a call's arguments, without calling anything."""
        try:
            self._arguments(arguments)
        except ArgumentsError as error:
            return error.problems
        return ()

    async def invoke(self, server: Server, work: Work, arguments: dict[str, Any]) -> Any:
        """Run it for its value, as JSON holds it. Raises ArgumentsError, ToolError, or what the function raised."""
        value = await self._run(server, work, self._arguments(arguments))
        return value if isinstance(value, ToolResult) else self._plain(value)

    async def call(self, server: Server, work: Work, arguments: dict[str, Any]) -> bytes:
        """Run it: the members of a CallToolResult. Raises a Fault where the request itself cannot be served."""
        try:
            values = self._arguments(arguments)
        except ArgumentsError as error:
            return _argument_error(error)
        except Exception as error:
            return self._crashed(error)
        try:
            value = await self._run(server, work, values)
            return self._result(value, server, work.dialect.revision)
        except ToolError as error:
            return _error(str(error) or f"{self.key} failed")
        except Overdue as overdue:
            return _error(str(overdue)) + b',"structuredContent":%b' % _encode({"error": overdue.detail})
        except Fault:
            raise
        except Exception as error:
            return self._crashed(error)

    def _crashed(self, error: Exception) -> bytes:
        """Its words may hold what the caller must not see: they go to the log alone."""
        log.error("tool %s failed", self.key, exc_info=error)
        return _error(f"{self.key} failed with {type(error).__name__}; the server's log says why")

    def _arguments(self, given: dict[str, Any]) -> dict[str, object]:
        """The function's arguments, once the schema and every validator of the author's have passed them."""
        values = self._function.arguments(given)
        for validator in self._validators:
            if found := found_by(validator, values):
                raise ArgumentsError(found)
        return values

    async def _run(self, server: Server, work: Work, values: dict[str, object]) -> Any:
        if self._timeout_s is None:
            return await self._function.run(server, work, values)
        try:
            async with work.limited(self._timeout_s):
                return await self._function.run(server, work, values)
        except TimeoutError:
            if not work.overdue:
                raise
            raise Overdue(self.key, self._timeout_s) from None

    def _checked(self, examples: Sequence[Mapping[str, object]]) -> tuple[Mapping[str, object], ...]:
        for number, example in enumerate(examples, 1):
            if problems := self.check(dict(example)):
                place = problems[0].field or "arguments"
                raise DefinitionError(f"tool {self.key}: example {number}: {place}: {problems[0].reason}", problems)
        return tuple(examples)

    def _plain(self, value: object) -> Any:
        """The function's value as JSON, checked against the tool's own output schema."""
        signature = self._function.signature
        plain = signature.encode(value, wrap=False)
        validator = signature.output_validator
        if validator is not None and (problems := validator.check(plain)):
            raise SignatureError(f"its result does not fit its own outputSchema: {problems[0].reason}", problems)
        return plain

    def _result(self, value: object, server: Server, revision: Revision) -> bytes:
        if isinstance(value, ToolResult):
            return _whole(value, revision, server.signed_meta if revision.modern else {})
        if isinstance(value, CONTENT_TYPES):
            return b'"content":[%b]' % _encode(fitting(value, revision))
        signature = self._function.signature
        if signature.output is None:
            return _untyped(value, revision)
        plain = self._plain(value)
        encoded = _encode(plain)
        text = plain if isinstance(plain, str) else encoded.decode()
        structured = encoded if revision.modern or not signature.wraps_result else b'{"result":%b}' % encoded
        return b'"content":[%b],"structuredContent":%b' % (_encode(Text(text)), structured)


def _untyped(value: object, revision: Revision) -> bytes:
    """The result of a function that does not say what it returns: content as it is, anything else as text."""
    if value is None:
        return b'"content":[]'
    if isinstance(value, str):
        return b'"content":[%b]' % _encode(Text(value))
    if isinstance(value, list | tuple) and any(isinstance(item, CONTENT_TYPES) for item in value):
        pieces = [
            fitting(item, revision) if isinstance(item, CONTENT_TYPES) else Text(_as_text(item)) for item in value
        ]
        return b'"content":%b' % _encode(pieces)
    return b'"content":[%b]' % _encode(Text(_as_text(value)))


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    plain = as_json(value)
    if plain is msgspec.UNSET:
        raise SignatureError(f"a tool returned a {type(value).__name__}, which has no JSON form")
    return _encode(plain).decode()


def _whole(result: ToolResult, revision: Revision, signed: Mapping[str, object]) -> bytes:
    """A result with a `_meta` of its own has it first, so that it is known not to need the server's."""
    members: dict[str, object] = {} if result.meta is None else {"_meta": {**signed, **result.meta}}
    members["content"] = [fitting(piece, revision) for piece in result.content]
    if result.structured is not msgspec.UNSET:
        members["structuredContent"] = as_json(result.structured)
        if not result.content:
            members["content"] = [Text(_as_text(result.structured))]
    if result.is_error:
        members["isError"] = True
    return _encode(members)[1:-1]


def _error(text: str) -> bytes:
    return b'"content":[%b],"isError":true' % _encode(Text(text))


def _argument_error(error: ArgumentsError) -> bytes:
    """An `isError` result, so that a model can correct itself, with the detail that a program can read."""
    problems = [told(problem) for problem in error.problems]
    detail = {"error": {"name": "INVALID_TOOL_ARGS", "problems": problems}}
    text = "The arguments do not fit:\n" + "\n".join(
        f"- {problem.field or 'arguments'}: {problem.reason}" for problem in error.problems
    )
    return _error(text) + b',"structuredContent":%b' % _encode(detail)


def _mirror(schema: dict[str, object], headers: Mapping[str, str]) -> None:
    properties = schema.get("properties")
    for name, header in headers.items():
        if not isinstance(properties, dict) or not isinstance(properties.get(name), dict):
            raise DefinitionError(f"headers names {name!r}, which is no parameter")
        properties[name] = {**properties[name], "x-mcp-header": header}


def _header_params(name: str, schema: dict[str, object]) -> tuple[ParamHeader, ...]:
    try:
        return param_headers(schema)
    except BadParamHeader as error:
        raise DefinitionError(f"tool {name}: {error}") from error
