"""Chooses the validators of a tool: declared by its server, configured by the operator, or inferred from its name and
schema.

The strictest wins: all declared and configured validators apply together, and an unknown one denies the tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from interlock.config.settings import ValidationSettings
from interlock.config.value_types import Mode
from interlock.judge.arguments import (
    KINDS,
    ArgumentKind,
    ArgumentPlaces,
    Context,
    context_of,
    free_texts,
    has_property,
    kinds_in_schema,
)
from interlock.judge.code.rules import CodeRules, Level
from interlock.judge.urls import UrlRules
from interlock.judge.validators import LANGUAGE, Rules, stricter
from interlock.protocols.mgp.security import VALIDATORS, CodeSafety, Hints, Security
from interlock.protocols.patterns import compile_pattern

Origin = Literal["declared", "configured", "inferred"]


class ValidatorUse(msgspec.Struct, frozen=True):
    """One validator of a tool."""

    validator: str
    origin: Origin
    rules: Rules
    enforced: bool
    """Whether its findings refuse a call, or are only noted."""


class ChosenValidators(msgspec.Struct, frozen=True):
    """All validators of a tool, and where they look."""

    uses: tuple[ValidatorUse, ...] = ()
    places: ArgumentPlaces | None = None
    unknown: str = ""
    """A declared validator that is not known here; the tool cannot be called."""


NOTHING: Final = ChosenValidators()


def choose(
    server: str, tool: str, definition: bytes, configured: Mapping[str, ValidationSettings], mode: Mode
) -> ChosenValidators:
    """The validators of a tool as its definition stands."""
    about = _read(definition)
    if isinstance(about, str):
        return ChosenValidators(unknown=about)
    operator = combined(configured, tool)
    declared = about.security.validator if about.security is not None else ""
    if declared and declared not in VALIDATORS:
        return ChosenValidators(unknown=declared)
    context = context_of((server, tool)) | ({"shell"} if declared == "sandbox" else set())
    by_schema = kinds_in_schema(about.schema, context)
    code = _declared_code(about.security.code_safety if about.security is not None else None)
    rules = rules_of(operator, code, tells_language=has_property(about.schema, LANGUAGE))
    wanted: list[tuple[str, Origin]] = []
    if declared and declared != "none" and not (declared == "code_safety" and code.level == "unrestricted"):
        wanted.append((declared, "declared"))
    wanted += [(name, "configured") for name in operator.use if name != "none" and name != declared]
    if "none" not in operator.use:
        settled = {name for name, _ in wanted}
        # In `locked`, a server's own list of allowed imports does not replace the inferred check.
        again = {"code_safety"} if mode == "locked" and code.allowed_imports and not operator.allowed_imports else set()
        inferred = _inferred(context, frozenset(by_schema.values()), about)
        wanted += [(name, "inferred") for name in inferred if name not in settled - again]
    if not any(name in ("network_restricted", "metadata") for name, _ in wanted) and _REACHING & {*by_schema.values()}:
        # Metadata services are refused even where no check of addresses is wanted.
        wanted.append(("metadata", "inferred"))
    if not wanted:
        return NOTHING
    uses = tuple(_use(name, origin, rules, operator, mode) for name, origin in wanted)
    return ChosenValidators(uses, _places(uses, context, by_schema, operator, about.schema))


def choose_configured(tool: str, configured: Mapping[str, ValidationSettings]) -> ChosenValidators:
    """The validators that the configuration alone names for a tool, before its server connects."""
    operator = combined(configured, tool)
    rules = rules_of(operator, CodeRules(), tells_language=True)
    uses = tuple(ValidatorUse(name, "configured", rules, True) for name in operator.use if name != "none")
    return ChosenValidators(uses, _places(uses, context_of((tool,)), {}, operator, _CLOSED)) if uses else NOTHING


def combined(configured: Mapping[str, ValidationSettings], tool: str) -> ValidationSettings:
    """All tables that match a tool, merged: every validator, and the last value of each other setting."""
    fitting = [table for pattern, table in configured.items() if compile_pattern(pattern).matches(tool)]
    if len(fitting) == 1:
        return fitting[0]
    values: dict[str, Any] = {}
    for table in fitting:
        for name in ValidationSettings.__struct_fields__:
            value = getattr(table, name)
            if value not in (None, (), {}, False):
                values[name] = value
    values["use"] = tuple(dict.fromkeys(name for table in fitting for name in table.use))
    return ValidationSettings(**values)


def rules_of(operator: ValidationSettings, code: CodeRules, *, tells_language: bool) -> Rules:
    """An operator's settings as rules for the judges. They override a server's declaration about code."""
    return Rules(
        programs=operator.programs,
        blocked_programs=operator.blocked_programs,
        windows_shells=operator.windows_shells,
        readers=operator.readers,
        urls=UrlRules(
            ports=operator.ports,
            hosts=operator.hosts,
            allowed_names=operator.local_names,
            networks=operator.networks,
        ),
        code=CodeRules(
            level=stricter(code.level, operator.level) if operator.level is not None else code.level,
            language=operator.language or code.language,
            max_code_size_bytes=_smaller(code.max_code_size_bytes, operator.max_code_bytes),
            blocked_imports=(*code.blocked_imports, *operator.blocked_imports),
            blocked_patterns=(*code.blocked_patterns, *operator.blocked_patterns),
            allowed_imports=operator.allowed_imports or code.allowed_imports,
        ),
        roots=operator.roots,
        dialect=operator.dialect,
        tells_language=tells_language,
        ignored=operator.ignore,
    )


class _About(msgspec.Struct, frozen=True):
    security: Security | None
    hints: Hints
    schema: object


class _Definition(msgspec.Struct):
    security: msgspec.Raw = msgspec.Raw(b"null")
    annotations: msgspec.Raw = msgspec.Raw(b"null")
    inputSchema: object = None


_decode_definition = msgspec.json.Decoder(_Definition).decode
_decode_security = msgspec.json.Decoder(Security | None).decode
_decode_hints = msgspec.json.Decoder(Hints | None).decode


def _read(definition: bytes) -> _About | str:
    """The declared validators; as text, the reason why they cannot be read, which counts as an unknown validator."""
    try:
        read = _decode_definition(definition)
    except (msgspec.DecodeError, RecursionError) as cause:
        return f"unreadable: {cause}"
    try:
        security = _decode_security(read.security)
    except msgspec.DecodeError as cause:
        return f"unreadable: {cause}"
    try:
        hints = _decode_hints(read.annotations) or Hints()
    except msgspec.DecodeError:
        hints = Hints()
    return _About(security, hints, read.inputSchema)


def _declared_code(declared: CodeSafety | None) -> CodeRules:
    """A declaration as rules. An unknown level counts as the strictest."""
    if declared is None:
        return CodeRules()
    level: Level = declared.level if declared.level in _LEVELS else "readonly"  # type: ignore[assignment]
    return CodeRules(
        level,
        declared.language or "python",
        declared.max_code_size_bytes,
        declared.blocked_imports,
        declared.blocked_patterns,
        declared.allowed_imports,
    )


_LEVELS = ("unrestricted", "standard", "strict", "readonly")


_REACHING: Final[frozenset[ArgumentKind]] = frozenset(("url", "host", "command"))


def _inferred(context: Context, kinds: frozenset[ArgumentKind], about: _About) -> list[str]:
    """The validators that the arguments suggest. A `code` argument is a program only if the tool runs programs."""
    if isinstance(about.schema, dict) and not about.schema.keys() - {"type", "$schema", "additionalProperties"}:
        # A schema without members: arguments are recognized by their names when they arrive.
        open_to_all = about.schema.get("additionalProperties") is not False
        kinds |= {"command", "url"} if open_to_all else set()
    names = []
    if "command" in kinds or "shell" in context:
        names.append("sandbox")
    if about.hints.read_only_hint and ("command" in kinds or "sql" in kinds):
        names.append("readonly")
    if "url" in kinds:
        names.append("network_restricted")
    if "code" in kinds and "code" in context:
        names.append("code_safety")
    return names


def _use(name: str, origin: Origin, rules: Rules, operator: ValidationSettings, mode: Mode) -> ValidatorUse:
    if origin == "inferred":
        if name == "code_safety":
            plain = rules_of(operator, CodeRules(), tells_language=rules.tells_language)
            rules = msgspec.structs.replace(rules, code=plain.code)
        # An inferred command is enforced in `locked` alone, and judged as a simple command there.
        rules = msgspec.structs.replace(rules, inferred=mode != "locked")
        # `metadata` needs no enforcement: its addresses are refused in any case.
        return ValidatorUse(name, origin, rules, mode == "locked" and name != "metadata")
    return ValidatorUse(name, origin, rules, mode != "observe")


def _places(
    uses: tuple[ValidatorUse, ...],
    context: Context,
    by_schema: Mapping[str, ArgumentKind],
    operator: ValidationSettings,
    schema: object,
) -> ArgumentPlaces:
    kinds = {kind for use in uses for kind in KINDS[use.validator] if kind != "text"}
    known = {*by_schema.values(), *operator.arguments}
    otherwise: ArgumentKind | None = None
    for use in uses:
        wanted = KINDS[use.validator]
        if use.origin == "inferred" or use.validator == "paths" or not known.isdisjoint(wanted):
            continue
        if free_texts(schema) or _says_nothing(schema):
            # No argument looks like this validator's subject, so it checks every text.
            if use.validator not in ("network_restricted", "readonly"):
                otherwise = wanted[0]
            elif otherwise is None:
                otherwise = "text"
    return ArgumentPlaces(kinds, context, named=operator.arguments, by_schema=by_schema, otherwise=otherwise)


_CLOSED = {"additionalProperties": False}


def _says_nothing(schema: object) -> bool:
    """Whether a schema takes arguments without naming one."""
    return not isinstance(schema, dict) or not (schema.get("properties") or schema.get("additionalProperties") is False)


def _smaller(one: int | None, other: int | None) -> int | None:
    given = [size for size in (one, other) if size is not None]
    return min(given) if given else None
