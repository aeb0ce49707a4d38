"""Reads a Python function: its parameters, its return type and how it runs. Errors name the parameter and the file."""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, Union

import msgspec
from msgspec import UNSET

from .docstrings import Docstring
from .fields import InputField, OutputField
from .marks import marks_of
from .problems import DefinitionError, shown
from .pydantic_types import is_any_json, validates
from .typed_checks import typed_checks

Kind: TypeAlias = Literal["function", "coroutine", "generator", "async_generator"]

_STREAMS = (
    *(collections.abc.Iterator, collections.abc.Generator),
    *(collections.abc.AsyncIterator, collections.abc.AsyncGenerator, collections.abc.AsyncIterable),
)
_PROMISES = (collections.abc.Awaitable, collections.abc.Coroutine)
_REFUSED = {
    inspect.Parameter.VAR_POSITIONAL: "collects any number of values; take one list instead",
    inspect.Parameter.VAR_KEYWORD: "collects any names; take one dict instead",
    inspect.Parameter.POSITIONAL_ONLY: "is positional only, but arguments arrive by name; remove the /",
}


class FunctionFacts(msgspec.Struct, frozen=True):
    """The parts of a signature that a function gives."""

    inputs: tuple[InputField, ...]
    injected: Mapping[str, type]
    output: OutputField | None
    description: str
    kind: Kind
    where: str


def read_function(
    function: Callable[..., object], context_types: tuple[type, ...] = (), content_types: tuple[type, ...] = ()
) -> FunctionFacts:
    """Read a function. Raises DefinitionError where it cannot be a tool."""
    if not callable(function):
        raise DefinitionError(f"a tool is made from a function, not from {shown(function)}")
    target = _called(function)
    with contextlib.suppress(ValueError):
        # Annotations and docstring are those of the function under the decorators.
        target = inspect.unwrap(target)
    where = _location(target, function)
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"{where}: its parameters cannot be read: {error}") from error
    hints = _hints(target, where)
    documented = Docstring.parse(getattr(target, "__doc__", None) or "")
    inputs: list[InputField] = []
    injected: dict[str, type] = {}
    for name, parameter in parameters.items():
        if parameter.kind in _REFUSED:
            star = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
            raise DefinitionError(f"{where}: parameter '{star}{name}' {_REFUSED[parameter.kind]}")
        if name in ("self", "cls") and not inputs and not injected and name not in hints:
            hint = "make one, and offer its method: server.tool(it.do)"
            raise DefinitionError(f"{where}: '{name}' has no object; {hint}")
        annotation = hints.get(name, Any)
        if context := _context_type(annotation, context_types):
            injected[name] = context
            continue
        try:
            inputs.append(_input(parameter, annotation, documented.parameters.get(name, "")))
        except DefinitionError as error:
            raise DefinitionError(f"{where}: parameter '{name}': {error}") from error
    return FunctionFacts(
        tuple(inputs),
        injected,
        _output(hints.get("return", UNSET), documented.returns, content_types),
        documented.text,
        _kind(function),
        where,
    )


def _called(function: Callable[..., object]) -> Any:
    """The function that runs first, under partials and callable objects."""
    target: Any = function
    while isinstance(target, functools.partial):
        target = target.func
    if not isinstance(target, type) and not inspect.isroutine(target) and hasattr(type(target), "__call__"):  # noqa: B004
        target = target.__call__
    return target


def _location(target: Any, function: object) -> str:
    code = getattr(target, "__code__", None)
    name = getattr(target, "__qualname__", None) or type(function).__name__
    return f"{code.co_filename}:{code.co_firstlineno} {name}" if isinstance(code, types.CodeType) else name


def _hints(target: Any, where: str) -> dict[str, Any]:
    if isinstance(target, type):
        return typing.get_type_hints(target, include_extras=True)
    known, local = getattr(target, "__globals__", {}), _enclosing_names(target)
    hints: dict[str, Any] = {}
    for name, annotation in _annotations(target, where).items():
        try:
            written = eval(_code(annotation), known, local) if isinstance(annotation, str) else annotation
            alone = types.SimpleNamespace(__annotations__={name: written})
            hints |= typing.get_type_hints(alone, known, local, include_extras=True)
        except Exception as error:
            part = "the return type" if name == "return" else f"parameter '{name}'"
            raise DefinitionError(f"{where}: {part} has an annotation that cannot be read: {error}") from error
    return hints


def _annotations(target: Any, where: str) -> dict[str, Any]:
    try:
        return getattr(target, "__annotations__", None) or {}
    except Exception as error:  # where annotations are code, this runs them
        raise DefinitionError(f"{where}: its annotations cannot be read: {error}") from error


@functools.lru_cache(maxsize=1_024)
def _code(annotation: str) -> types.CodeType:
    """An annotation that was kept as text. Many functions share few different ones, hence the cache."""
    return compile(annotation, "<annotation>", "eval")


def _enclosing_names(target: Any) -> dict[str, Any]:
    """Names of the enclosing functions that the function uses, for annotations kept as text."""
    code, cells = getattr(target, "__code__", None), getattr(target, "__closure__", None)
    names: dict[str, Any] = {}
    for name, cell in zip(getattr(code, "co_freevars", ()), cells or (), strict=False):
        with contextlib.suppress(ValueError):
            names[name] = cell.cell_contents
    return names


def _context_type(annotation: Any, context_types: tuple[type, ...]) -> type | None:
    """The context type that an annotation names, also as an arm of a union."""
    kind, arguments = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    if kind in (Annotated, Union, types.UnionType):
        arms = arguments[:1] if kind is Annotated else arguments
        return next((found for arm in arms if (found := _context_type(arm, context_types))), None)
    return kind if isinstance(kind, type) and issubclass(kind, context_types) else None


def _input(parameter: inspect.Parameter, annotation: Any, documented: str) -> InputField:
    marks, metadata, kind = InputField(), [], annotation
    if typing.get_origin(annotation) is Annotated:
        kind, *metadata = typing.get_args(annotation)
        marks = marks_of(metadata)
    default = parameter.default
    _refuse_aliases([*metadata, default])
    if type(default).__module__.startswith("pydantic") and hasattr(default, "metadata"):
        # `days: int = Field(1, ge=1)`: the field is the default's place, not the default.
        marks = marks_of([default, marks])
        metadata.append(default)
        default = inspect.Parameter.empty
    marks = msgspec.structs.replace(marks, constraints=(*marks.constraints, *typed_checks(kind, metadata)))
    return msgspec.structs.replace(
        marks,
        name=parameter.name,
        type=annotation if any(map(validates, metadata)) else kind,
        description=marks.description or documented,
        default=marks.default if default is inspect.Parameter.empty else default,
    )


def _refuse_aliases(marks: Sequence[Any]) -> None:
    """Raise DefinitionError for an alias: arguments come under the parameter's own name only."""
    for mark in marks:
        alias = getattr(mark, "validation_alias", None) or getattr(mark, "alias", None)
        if alias is not None and type(mark).__module__.startswith("pydantic"):
            raise DefinitionError(f"its alias {alias!r} is not read; take one model with that field instead")


def _output(annotation: Any, documented: str, content_types: tuple[type, ...]) -> OutputField | None:
    description, schema = documented, None
    if typing.get_origin(annotation) is Annotated:
        annotation, *metadata = typing.get_args(annotation)
        marks = marks_of(metadata)
        description, schema = marks.description or documented, marks.schema
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in _PROMISES:
        return _output(arguments[-1], documented, content_types)
    if annotation in _STREAMS or origin in _STREAMS:
        annotation = list[arguments[0]] if arguments else list  # type: ignore[valid-type]
    untyped = annotation in (UNSET, None, type(None), Any, object, typing.NoReturn, typing.Never)
    if is_any_json(annotation) or (schema is None and (untyped or _mentions(annotation, content_types))):
        return None
    return OutputField(type=annotation, description=description, schema=schema)


def _mentions(annotation: Any, kinds: tuple[type, ...]) -> bool:
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        return issubclass(annotation, kinds)
    return any(_mentions(argument, kinds) for argument in typing.get_args(annotation))


def _kind(function: Callable[..., object]) -> Kind:
    """How it runs: the outermost decorator decides."""
    target = _called(function)
    kinds: dict[Kind, Callable[[object], bool]] = {
        "async_generator": inspect.isasyncgenfunction,
        "generator": inspect.isgeneratorfunction,
        "coroutine": inspect.iscoroutinefunction,
    }
    return next((kind for kind, test in kinds.items() if test(target)), "function")
