"""The checks that a registration passes before a person sees it, and the text that this person reads."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from typing import Final

import msgspec

from interlock.hub.approvals.decision import ApprovalRequest
from interlock.hub.auth.principals import Principal
from interlock.hub.upstreams.registration.registration import MAX_SOURCE_BYTES, Registration
from interlock.judge.code import judge_code, rejection
from interlock.judge.code.rules import CodeRules
from interlock.judge.findings import Finding
from interlock.judge.text import show_hidden
from interlock.protocols.mgp.permissions import STANDARD, Risk
from interlock.wire.errors import Fault

_NAMES: Final = (
    "Annotations Answer ArgumentsCheck Audio Completion Content Context Embedded Icon Image Message NotFound Prompt "
    "Resource ResourceContents ResourceLink Root Sampled Server TaskLimits Text Tool ToolError ToolHints ToolResult"
)
_LIBRARY: Final = ("interlock.Context", "interlock.Server", *(f"interlock.server.{name}" for name in _NAMES.split()))
"""The names of the library that a script may import. Its modules hold others, which reach processes and files."""


@cache
def script_rules() -> CodeRules:
    """The rules for scripts. Their vocabulary is loaded when an agent first registers a server or asks how to."""
    from interlock.judge.code.vocabulary import STRICT_MODULES

    return CodeRules(level="strict", allowed_imports=(*sorted(STRICT_MODULES), *_LIBRARY))


def check_permissions(permissions: tuple[str, ...]) -> None:
    """A sandboxed server may ask for nothing dangerous, and for nothing that the hub does not know."""
    for permission in permissions:
        if STANDARD.get(permission, Risk.DANGEROUS) >= Risk.DANGEROUS:
            message = f"a sandboxed server may not ask for `{permission}`"
            raise Fault("PERMISSION_DENIED", message, hint="register it without that permission")


def question(made: Registration, by: Principal, trace: str) -> tuple[ApprovalRequest, str]:
    """The question to a person, and the view that the person reads. Slow: it searches texts for hidden characters."""
    read = _view(made)
    asked = ApprovalRequest(
        kind="registration",
        asker=by.id,
        asker_kind=by.kind,
        server=made.id,
        name="",
        shown=f"register {made.id}",
        text=_quoted(made.justification) if made.justification else "no justification was given",
        rule="registration.agent",
        fingerprint=made.sha256,
        arguments_hash=digest(read),
        summary=" ".join(made.command)[:500],
        risk="dangerous",
        trust=made.trust,
        asked_with=by.key,
        trace=trace,
        registers=made.name,
    )
    return asked, read


def _view(made: Registration) -> str:
    """Everything that a person must read before approving."""
    parts = (
        f"{made.created_kind} {made.created_by} wants to register the server `{made.id}` ({_quoted(made.name)}).",
        f"Justification: {_quoted(made.justification) if made.justification else 'none'}",
        f"Command: {show_hidden(msgspec.json.encode(made.command).decode())}",
        f"Permissions: {', '.join(made.permissions) or 'none'}",
        f"It runs contained, without network and folders, whatever its permissions name; {_callers(made)}.",
        f"Source (SHA-256 {made.sha256}):\n{show_hidden(made.script)}"
        if made.script
        else "The operator listed its package.",
    )
    return "\n\n".join(parts)


def _callers(made: Registration) -> str:
    if made.expires is None:
        return "nobody may call it until you grant it"
    return f"only {made.created_by} may call it, until {made.expires:%F %H:%M} UTC; then it is removed"


def _quoted(text: str) -> str:
    """A text of the creator's own, on one line, so that it cannot pose as a part of the view."""
    return show_hidden(msgspec.json.encode(text).decode())


def read_script(path: str) -> str:
    """Read the script that an agent names. The answer never shows what is in it."""
    try:
        # A link must not lead to another kind of file.
        named = os.path.isabs(path) and path.endswith(".py") and os.path.realpath(path).endswith(".py")
        if not named or not os.path.isfile(path):
            raise OSError
        with open(path, "rb") as file:
            text = file.read(MAX_SOURCE_BYTES + 1)
        if len(text) > MAX_SOURCE_BYTES:
            raise OSError
        return text.decode()
    except (OSError, UnicodeDecodeError):
        hint = "give its text as `source`, or the absolute path of a .py file on the hub's machine"
        raise Fault("INVALID_PARAMS", "the hub cannot read the script", hint=hint) from None


def judge(source: str, *, explain: bool) -> None:
    """Judge a script at `strict`. Blocks. Raises CODE_SAFETY_VIOLATION.

    `explain`: the author sent the text, so the answer has all findings. For a file of this machine the answer has the
    rules only: findings would reveal its content.
    """
    findings = judge_code(source, script_rules())
    if not findings:
        return
    first, allowed = findings[0], ", ".join(script_rules().allowed_imports)
    if explain:
        found = [msgspec.structs.replace(each, message=f"{each.message}{_line(source, each)}") for each in findings]
        message, hint, listed = found[0].message, first.hint, found
    else:
        message, hint, listed = first.rule, "send its text as `source` to learn which lines must change", []
    if first.rule == "code.import":
        hint = f"{hint}; allowed are {allowed}"
    answer = rejection(listed, script_rules())
    raise Fault(
        "CODE_SAFETY_VIOLATION", f"the script is refused at `strict`: {message}", hint=hint, data={"rejection": answer}
    )


def _line(source: str, finding: Finding) -> str:
    return "" if finding.span is None else f" (line {source.count(chr(10), 0, finding.span[0]) + 1})"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
