"""A tool's signature: typed inputs and output, their JSON Schemas, and the way of values in and out of a function."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import msgspec
from msgspec import UNSET

from .constraints import Schema, checks_in, constrain
from .convert import Converter, Converters
from .fields import InputField, OutputField
from .functions import Kind, read_function
from .problems import ArgumentsError, DefinitionError, Problem, SignatureError, shown
from .type_schema import SchemaWriter, as_json
from .validate import Validator

RESULT = "result"
"""The key under which a result that is no object travels to peers that only take objects."""


class Signature(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What a tool takes and returns. From a function (`from_function`), a schema (`from_json_schema`), or by hand."""

    inputs: tuple[InputField, ...] = ()
    output: OutputField | None = None
    description: str = ""
    injected: Mapping[str, type] = {}
    """Parameters that the server fills itself, with the context type each asked for."""
    kind: Kind = "function"
    """How the function runs: plain, awaited, or yielding items one by one."""
    closed: bool = True
    """Whether arguments under other names are refused, which also catches a misspelt optional one."""
    keywords: Schema = {}
    """Further keywords of the input schema as a whole."""
    where: str = ""
    """File, line and name of the function, for errors."""

    @classmethod
    def from_function(
        cls,
        function: Callable[..., object],
        *,
        context_types: tuple[type, ...] = (),
        content_types: tuple[type, ...] = (),
        closed: bool = True,
    ) -> Signature:
        """The signature of a typed function. Raises DefinitionError that names the parameter and the file.

        A parameter of one of `context_types` is injected and not part of the schema; a function that returns one of
        `content_types` has no output schema, and its result passes through `encode` untouched.
        """
        facts = read_function(function, context_types, content_types)
        signature = cls(
            inputs=facts.inputs,
            output=facts.output,
            description=facts.description,
            injected=facts.injected,
            kind=facts.kind,
            closed=closed,
            where=facts.where,
        )
        signature.prepare()
        return signature

    def prepare(self) -> None:
        """Build all that is built once, so that a mistake shows now and not at the first call."""
        self._input_schema  # noqa: B018
        self._output_schema  # noqa: B018
        self._steps  # noqa: B018

    def input_schema(self) -> Schema:
        """JSON Schema of the arguments object. A copy: the caller may change it."""
        return copy.deepcopy(self._input_schema)

    def output_schema(self, *, wrap: bool = True) -> Schema | None:
        """JSON Schema of the result, or None if the function does not say.

        With `wrap`, a result that is no object is described as `{"result": ...}`, as revisions of MCP before
        2026-07-28 require; `encode` wraps the same way.
        """
        if self._output_schema is None:
            return None
        schema = copy.deepcopy(self._output_schema)
        if not wrap or not self.wraps_result:
            return schema
        definitions = schema.pop("$defs", None)
        wrapped: Schema = {"type": "object", "properties": {RESULT: schema}, "required": [RESULT]}
        return {**wrapped, "$defs": definitions} if definitions else wrapped

    @cached_property
    def wraps_result(self) -> bool:
        """Whether the result is something other than an object."""
        schema: Any = self._output_schema
        if schema is None:
            return False
        target = schema.get("$ref")
        if isinstance(target, str):
            schema = schema.get("$defs", {}).get(target.removeprefix("#/$defs/"), {})
        return bool(schema.get("type") != "object")

    def check(self, arguments: object) -> tuple[Problem, ...]:
        """What is wrong with the arguments, without calling anything."""
        try:
            self.decode(arguments)
        except ArgumentsError as error:
            return error.problems
        return ()

    def decode(self, arguments: object) -> dict[str, object]:
        """The function's keyword arguments from a JSON object, or from the bytes of one.

        Raises ArgumentsError. Absent optional arguments get their default.
        """
        if isinstance(arguments, bytes | bytearray | memoryview | str):
            arguments = _parsed(arguments)
        problems = self.input_validator.check(arguments)
        if problems:
            raise ArgumentsError(problems)
        assert isinstance(arguments, dict)
        values: dict[str, object] = {}
        for field, convert in self._steps:
            if field.name in arguments:
                values[field.name] = _converted(field, convert, arguments[field.name])
            elif field.default is not UNSET:
                values[field.name] = _fresh(field.default)
        return values

    def encode(self, value: object, *, wrap: bool = True) -> Any:
        """The function's result as JSON can hold it; wrapped as `output_schema(wrap=...)` says."""
        if self.output is None:
            return value
        plain = as_json(value)
        if plain is UNSET:
            raise SignatureError(f"{self.where or 'the tool'} returned {shown(value)}, which has no JSON form")
        return {RESULT: plain} if wrap and self.wraps_result else plain

    @cached_property
    def input_validator(self) -> Validator:
        return Validator(self._input_schema)

    @cached_property
    def output_validator(self) -> Validator | None:
        """Checks what `encode` gives with `wrap=False`."""
        return None if self._output_schema is None else Validator(self._output_schema)

    @cached_property
    def _input_schema(self) -> Schema:
        writer = SchemaWriter("input")
        properties: Schema = {}
        for field in self.inputs:
            try:
                properties[field.name] = _field_schema(writer, field)
            except DefinitionError as error:
                raise self._misdefined(f"parameter '{field.name}'", error) from error
        schema: Schema = {"type": "object", "properties": properties}
        if required := [field.name for field in self.inputs if field.is_required]:
            schema["required"] = required
        if self.closed:
            schema["additionalProperties"] = False
        return writer.finish({**schema, **self.keywords})

    @cached_property
    def _output_schema(self) -> Schema | None:
        if self.output is None:
            return None
        writer = SchemaWriter("output")
        try:
            schema = self.output.schema if self.output.schema is not None else writer.write(self.output.type)
        except DefinitionError as error:
            raise self._misdefined("the return type", error) from error
        if self.output.description and "description" not in schema:
            schema = {**schema, "description": self.output.description}
        return writer.finish(schema)

    @cached_property
    def _steps(self) -> tuple[tuple[InputField, Converter | None], ...]:
        converters = Converters()
        return tuple(
            (field, None if field.type is UNSET or field.schema is not None else converters.make(field.type))
            for field in self.inputs
        )

    def _misdefined(self, part: str, error: DefinitionError) -> DefinitionError:
        return DefinitionError(f"{self.where}: {part}: {error}" if self.where else f"{part}: {error}")


def _field_schema(writer: SchemaWriter, field: InputField) -> Schema:
    if field.schema is not None:
        return field.schema
    schema = writer.write(str if field.type is UNSET else field.type)
    schema = constrain(schema, field.all_constraints())
    schema = field.decorate(schema)
    if field.default is not UNSET and (plain := as_json(field.default)) is not UNSET:
        if plain is None and "null" not in str(schema.get("type", "null")):
            return schema
        schema["default"] = plain
    return schema


def _converted(field: InputField, convert: Converter | None, value: object) -> object:
    try:
        converted = convert(value) if convert else value
        for rule in checks_in(field.all_constraints()):
            if not rule.check(converted):
                problem = Problem((field.name,), rule.reason, got=_quoted(field, value), suggestions=rule.suggestions)
                raise ArgumentsError((problem,))
    except ArgumentsError:
        raise
    except Exception as error:
        raise ArgumentsError((Problem((field.name,), str(error), got=_quoted(field, value)),)) from error
    return converted


def _quoted(field: InputField, value: object) -> str:
    return "a secret" if field.secret else shown(value)


def _parsed(text: bytes | bytearray | memoryview | str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ArgumentsError((Problem((), f"not valid JSON: {error}", "a JSON object"),)) from error


def _fresh(default: object) -> object:
    return copy.deepcopy(default) if isinstance(default, list | dict | set) else default
