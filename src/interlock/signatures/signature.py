"""A tool's signature: typed inputs and output, their JSON Schemas, and the conversion of values for a function."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import msgspec
from msgspec import UNSET

from .constraints import Satisfies, Schema, checks_in, constrain, hides_a_check
from .convert import Converter, Converters
from .definitions import copied, referenced
from .examples import examples
from .explain import conversion_problem, quoted
from .fields import InputField, OutputField
from .from_schema import read_schema
from .functions import Kind, read_function
from .mistakes import find_mistake
from .problems import ArgumentsError, DefinitionError, Problem, SignatureError, shown
from .type_schema import SchemaWriter, as_json
from .typed_checks import encoded_lengths
from .validate import Validator

RESULT = "result"
"""The key that wraps a result that is no object, for peers that only take objects."""

_TEXTS = (bytes, bytearray, memoryview, str)
_MUTABLE = (list, dict, set)
_PLAIN_RESULTS = {"string": str, "integer": int, "boolean": bool}


class Signature(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The inputs and output of a tool: from a function (`from_function`), a schema (`from_json_schema`), or by hand."""

    inputs: tuple[InputField, ...] = ()
    output: OutputField | None = None
    description: str = ""
    injected: Mapping[str, type] = {}
    """Parameters that the server fills itself, with the context type each asked for."""
    kind: Kind = "function"
    """How the function runs: plain, awaited, or yielding items one by one."""
    content_types: tuple[type, ...] = ()
    """Results that `encode` passes through untouched."""
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
    ) -> Signature:
        """The signature of a typed function. Raises DefinitionError that names the parameter and the file.

        A parameter of one of `context_types` is injected and not part of the schema; a function that returns one of
        `content_types` has no output schema, and its result passes through `encode` untouched.
        """
        facts = read_function(function, context_types, content_types)
        given = {name: getattr(facts, name) for name in facts.__struct_fields__}
        signature = cls(**given, content_types=content_types)
        try:
            signature.prepare()
        except SignatureError:
            raise
        except Exception as error:  # annotations and defaults are the author's objects and may do anything
            raise DefinitionError(f"{facts.where}: cannot become a tool: {error}") from error
        if mistake := find_mistake(signature._input_schema["properties"], signature.input_validator):
            raise signature._misdefined(f"parameter '{mistake.parameter}'", DefinitionError(mistake.reason))
        return signature

    @classmethod
    def from_json_schema(
        cls, schema: Mapping[str, object], *, output_schema: Schema | None = None, description: str = ""
    ) -> Signature:
        """The signature that an input schema describes; `input_schema()` gives the same schema back."""
        inputs, closed, keywords = read_schema(schema)
        output = None if output_schema is None else OutputField(schema=output_schema)
        signature = cls(inputs=inputs, output=output, description=description, closed=closed, keywords=keywords)
        signature.prepare()
        return signature

    def __post_init__(self) -> None:
        names = [field.name for field in self.inputs]
        if "" in names or len(set(names)) != len(names):
            raise DefinitionError(f"every input needs a name of its own, not {', '.join(names)}")

    def prepare(self) -> None:
        """Build every cached part, so that a mistake shows now and not at the first call."""
        parts = ["_input_schema", "_output_schema", "_steps", "input_validator"]
        if self.output is not None and self.output.schema is not None:
            parts.append("output_validator")
        for part in parts:
            getattr(self, part)

    def input_schema(self) -> Schema:
        """JSON Schema of the arguments object. A copy: the caller may change it."""
        schema: Schema = copied(self._input_schema)
        return schema

    def output_schema(self, *, wrap: bool = True) -> Schema | None:
        """JSON Schema of the result, or None if the function does not say.

        With `wrap`, a result that is no object is described as `{"result": ...}`, as revisions of MCP before
        2026-07-28 require; `encode` wraps the same way.
        """
        if self._output_schema is None:
            return None
        schema: Schema = copied(self._output_schema)
        if not wrap:
            return schema
        if not self.wraps_result:
            return {"type": "object", **schema}
        definitions = schema.pop("$defs", None)
        wrapped: Schema = {"type": "object", "properties": {RESULT: schema}, "required": [RESULT]}
        return {**wrapped, "$defs": definitions} if definitions else wrapped

    @cached_property
    def wraps_result(self) -> bool:
        """Whether the result is something other than an object."""
        schema: Any = self._output_schema
        if schema is None:
            return False
        definition = schema.get("$defs", {}).get(referenced(schema), schema)
        return bool(definition.get("type") != "object")

    def examples(self, count: int = 2) -> list[dict[str, Any]]:
        """Arguments made from the constraints; each has been decoded, so a call with it is accepted."""
        return [example for example in examples(self._input_schema, count) if not self.check(example)]

    def check(self, arguments: object) -> tuple[Problem, ...]:
        """The problems of the arguments, without a call."""
        try:
            self.decode(arguments)
        except ArgumentsError as error:
            return error.problems
        return ()

    def decode(self, arguments: object) -> dict[str, object]:
        """The function's keyword arguments from a JSON object, or from the bytes of one.

        Raises ArgumentsError. Absent optional arguments get their default.
        """
        if isinstance(arguments, _TEXTS):
            try:
                arguments = msgspec.json.decode(arguments)
            except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
                raise ArgumentsError((Problem((), f"not valid JSON: {error}", "a JSON object"),)) from error
        if wrong := self.input_validator.check(arguments):
            raise ArgumentsError(wrong)
        if not isinstance(arguments, dict):
            raise ArgumentsError((Problem((), f"Type mismatch: expected object, got {shown(arguments)}", "object"),))
        values = {name: arguments[name] for name in arguments if name not in self._names} if self._takes_others else {}
        problems: list[Problem] = []
        for step in self._steps:
            if step.name in arguments:
                value = arguments[step.name]
                if type(value) is not step.exact and (step.convert is not None or step.checks):
                    value = self._converted(step, value, problems)
                values[step.name] = value
            elif step.make is not None:
                values[step.name] = step.make()
            elif step.default is not UNSET:
                values[step.name] = copy.deepcopy(step.default) if isinstance(step.default, _MUTABLE) else step.default
        if problems:
            raise ArgumentsError(problems)
        return values

    def takes_text(self, name: str) -> bool:
        """Whether the input of that name can be a text."""
        return _takes_text(self._schema_of(name), self._input_schema.get("$defs", {}))

    def encode(self, value: object, *, wrap: bool = True) -> Any:
        """The function's result as JSON holds it, wrapped as `output_schema(wrap=...)` says; content passes through."""
        if self.output is None and is_content(value, self.content_types):
            return value
        plain = as_json(value)
        if plain is UNSET:
            raise SignatureError(f"{self.where or 'the tool'} returned {shown(value)}, which has no JSON form")
        return {RESULT: plain} if wrap and self.wraps_result else plain

    @cached_property
    def input_validator(self) -> Validator:
        try:
            return Validator(self._input_schema, formats=True)
        except DefinitionError as error:
            named = (f.name for f in self.inputs if f" at properties/{f.name}/" in str(error))
            part = next((f"parameter '{name}'" for name in named), "its parameters")
            raise self._misdefined(part, error) from error

    @cached_property
    def output_validator(self) -> Validator | None:
        """Checks what `encode` gives with `wrap=False`."""
        return None if self._output_schema is None else Validator(self._output_schema)

    @cached_property
    def plain_result(self) -> type | None:
        """A type whose every value is JSON and fits the output schema, so that results need no check."""
        schema = self._output_schema or {}
        if schema.keys() - {"description"} != {"type"}:
            return None
        return _PLAIN_RESULTS.get(str(schema["type"]))

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
    def _steps(self) -> tuple[_Step, ...]:
        converters = Converters()
        steps = []
        for field in self.inputs:
            if any(hides_a_check(constraint) for constraint in field.constraints):
                error = DefinitionError("a `satisfies` check cannot be under | or ~, as a schema cannot express it")
                raise self._misdefined(f"parameter '{field.name}'", error)
            convert = None if field.type is UNSET or field.schema is not None else converters.make(field.type)
            checks = checks_in(field.constraints)
            exact = field.type if field.type in (int, float) and not checks else None
            steps.append(_Step(field.name, convert, checks, field.default, field.default_factory, exact))
        return tuple(steps)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(field.name for field in self.inputs)

    @cached_property
    def _takes_others(self) -> bool:
        """Whether the schema describes arguments under other names, which are then passed on."""
        return not self.closed and not {"additionalProperties", "patternProperties"}.isdisjoint(self.keywords)

    def _converted(self, step: _Step, value: Any, problems: list[Problem]) -> object:
        """The Python value. Its problems are added to the list."""
        try:
            converted = step.convert(value) if step.convert else value
            failed = next((rule for rule in step.checks if not rule.check(converted)), None) if step.checks else None
        except Exception as error:
            problems.append(conversion_problem((step.name,), value, self._schema_of(step.name), error))
            return None
        if failed is not None:
            got = quoted(self._schema_of(step.name), value)
            problems.append(Problem((step.name,), failed.reason, got=got, suggestions=failed.suggestions))
        return converted

    def _schema_of(self, name: str) -> Schema:
        properties: Any = self._input_schema["properties"]
        return properties[name] if isinstance(properties[name], dict) else {}

    def _misdefined(self, part: str, error: DefinitionError) -> DefinitionError:
        return DefinitionError(f"{self.where}: {part}: {error}" if self.where else f"{part}: {error}")


class _Step(msgspec.Struct, frozen=True):
    """How one argument becomes a value: its converter, and the checks that only code can make."""

    name: str
    convert: Converter | None
    checks: tuple[Satisfies, ...]
    default: Any
    make: Callable[[], Any] | None
    """Makes the default anew for each call."""
    exact: Any = None
    """A value of exactly this type needs no conversion."""


def _field_schema(writer: SchemaWriter, field: InputField) -> Schema:
    if field.schema is not None:
        return field.schema
    written = writer.write(str if field.type is UNSET else field.type)
    constraints = field.all_constraints()
    schema = field.decorate(constrain(written, encoded_lengths(constraints) if field.type is bytes else constraints))
    plain = UNSET if field.default is UNSET else as_json(field.default)
    # `x: str = None` says that it may be left out, and not that it may be null.
    if plain is not UNSET and (plain is not None or "null" in str(schema.get("type", "null"))):
        schema["default"] = plain
    return schema


def _takes_text(schema: Any, definitions: Any) -> bool:
    if target := referenced(schema):
        schema = definitions.get(target, {})
    if arms := schema.get("anyOf") or schema.get("oneOf"):
        return any(_takes_text(arm, definitions) for arm in arms)
    return "string" in schema.get("type", "string")


def is_content(value: object, kinds: tuple[type, ...]) -> bool:
    """Whether it is a piece of content, or a list with one in it."""
    if isinstance(value, list | tuple):
        return any(isinstance(item, kinds) for item in value)
    return isinstance(value, kinds)
