"""The text of a refusal: the rule, the offending part, an alternative, and how an operator can allow it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from interlock.hub.calls.gates.validator_choice import ValidatorUse
from interlock.hub.calls.verdicts import Ask, Refuse
from interlock.judge.arguments import FoundArgument
from interlock.judge.findings import Finding
from interlock.judge.text import show_hidden
from interlock.judge.validators import code_rules, is_metadata
from interlock.wire.errors import Fault

MAX_SHOWN_REFUSALS = 5
EXCERPT = 60


class Objection(NamedTuple):
    """One objection of a validator to a value."""

    use: ValidatorUse
    found: FoundArgument
    finding: Finding


def refuse(server: str, tool: str, objections: Sequence[Objection]) -> Refuse:
    """The refusal of a call, for the model that made it and for the person behind it."""
    first = objections[0]
    code = [each for each in objections if each.finding.rule.startswith("code.")]
    data: dict[str, object] = {
        "validator": first.use.validator,
        "origin": first.use.origin,
        "findings": [
            {
                "rule": each.finding.rule,
                "message": each.finding.message,
                "hint": each.finding.hint,
                "argument": each.found.where,
                "excerpt": excerpt(each.found, each.finding),
            }
            for each in objections[:MAX_SHOWN_REFUSALS]
        ],
    }
    if code:
        from interlock.judge.code import rejection

        rules = code_rules(code[0].found, code[0].use.rules)
        data["rejection"] = rejection((each.finding for each in code), rules)
    reasons = [
        f"{each.found.where}: {each.finding.message} [{each.finding.rule}]{_shown(each)}"
        for each in objections[:MAX_SHOWN_REFUSALS]
    ]
    message = f"Refused by the {first.use.validator} validator ({first.use.origin}):\n" + "\n".join(reasons)
    suggestions = list(
        dict.fromkeys(each.finding.hint for each in objections[:MAX_SHOWN_REFUSALS] if each.finding.hint)
    )
    suggestions.append(how_to_allow(server, tool, first.finding))
    name = "CODE_SAFETY_VIOLATION" if first.use.validator == "code_safety" else "VALIDATION_BLOCKED"
    return Refuse(
        Fault(name, message, hint=" ".join(_sentence(hint) for hint in suggestions), data=data), first.finding.rule
    )


def ask(shown: str, objections: Sequence[Objection]) -> Ask:
    """The question to a person about a call that only inferred checks object to."""
    reasons = "; ".join(
        f"{each.found.where}: {each.finding.message} [{each.finding.rule}], at {excerpt(each.found, each.finding)!r}"
        for each in objections[:MAX_SHOWN_REFUSALS]
    )
    return Ask(
        f"A person decides about this call of {shown}. {reasons}.",
        f"inferred: {objections[0].finding.rule}",
    )


def refuse_unknown(server: str, tool: str, validator: str) -> Refuse:
    """The refusal for a tool that declares an unknown validator."""
    fault = Fault(
        "VALIDATION_BLOCKED",
        f"{server} declares the validator {validator[:60]!r} for {tool}, which the hub does not know.",
        hint="The hub refuses arguments that it cannot check: the server must name a standard validator.",
        data={"validator": validator[:60], "origin": "declared"},
    )
    return Refuse(fault, "validator.unknown")


def how_to_allow(server: str, tool: str, finding: Finding) -> str:
    """The line of configuration that an operator would write."""
    if is_metadata(finding):
        return "Nothing allows a metadata service."
    name = tool if tool.replace("_", "").replace("-", "").isalnum() and tool.isascii() else f'"{show_hidden(tool)}"'
    return f'An operator can allow it: [servers.{server}.validators.{name}] ignore = ["{finding.rule}"]'


def excerpt(found: FoundArgument, finding: Finding) -> str:
    """The offending part of a value, made visible; the beginning of the value where the part is not known."""
    if not isinstance(found.value, str):
        return show_hidden(" ".join(found.value)[:EXCERPT])
    start, end = finding.span or (0, len(found.value))
    return show_hidden(found.value[start : min(end, start + EXCERPT)])


def _shown(each: Objection) -> str:
    text = excerpt(each.found, each.finding)
    return f"\n  at: {text}" if text else ""


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "]")) else ".")
