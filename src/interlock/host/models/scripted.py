"""A model that answers from a script: for demonstrations and tests, without an endpoint.

A script is a list of steps. The first step whose `when` occurs in the newest message answers it. Steps without `when`
answer in order, by the number of earlier answers in the conversation, so that a script continues after a restart.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from interlock.config.model_settings import ModelSettings
from interlock.host.models.model import (
    AnswerFinished,
    Chunk,
    ModelPrompt,
    ModelToolResult,
    TextDelta,
    ToolUse,
    estimated,
)
from interlock.protocols.mcpl.content import TextContent
from interlock.protocols.mcpl.inference import ModelInfo
from interlock.protocols.mcpl.injections import content_without_label
from interlock.wire.errors import Fault

MAX_BYTES: Final = 4 * 1024 * 1024
_WORDS: Final = re.compile(r"\S+\s*|\s+")


class ScriptedAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A step of a script: the answer, and the message that it answers."""

    when: str | None = None
    """The text in the newest message to which this step is the answer."""
    text: str = ""
    """The answer. `{user}` stands for the newest user text, `{result}` for the newest tool result,
    `{system}` for the instructions."""
    tool: str | None = None
    """A tool to call."""
    arguments: dict[str, Any] = {}
    error: str | None = None
    """An error instead of an answer."""


class ScriptedModel:
    """A model that answers from a script, for tests and demonstrations."""

    def __init__(self, steps: Sequence[ScriptedAnswer], info: ModelInfo) -> None:
        self._named = [step for step in steps if step.when is not None]
        self._ordered = [step for step in steps if step.when is None]
        self.info = info

    @classmethod
    def of(cls, settings: ModelSettings) -> ScriptedModel:
        """The model of a configuration. Raises a `Fault` for a script that cannot be read."""
        path = Path(settings.script or "")
        try:
            if path.stat().st_size > MAX_BYTES:
                raise Fault("TOO_LARGE", f"the script {path} is larger than {MAX_BYTES} bytes")
            steps = msgspec.json.decode(path.read_bytes(), type=list[ScriptedAnswer])
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as cause:
            hint = 'write a list of steps, such as [{"text": "Hello."}]'
            raise Fault("UPSTREAM_ERROR", f"the script {path} cannot be read: {cause}", hint=hint) from None
        name = settings.model or path.stem
        return cls(
            steps, ModelInfo(name, settings.vendor or "scripted", settings.context_window, settings.capabilities)
        )

    async def stream(self, prompt: ModelPrompt) -> AsyncGenerator[Chunk, None]:
        """The answer in chunks. Raises a `Fault` where the script says so, or has no answer."""
        step = self._step(prompt)
        if step.error is not None:
            raise Fault("UPSTREAM_ERROR", f"the script says: {step.error}")
        text = _filled(step.text, prompt)
        for word in _WORDS.findall(text):
            yield TextDelta(word)
        if step.tool is not None:
            arguments = msgspec.json.encode(_filled_in(step.arguments, prompt)).decode()
            yield ToolUse(f"call_{_answers(prompt)}", step.tool, arguments)
        yield AnswerFinished("end_turn" if step.tool is None else "tool_use", estimated(prompt, len(text.encode())))

    async def drain(self) -> None:
        """Return at once: a scripted model has no running answers."""

    async def close(self) -> None:
        """Do nothing: a scripted model has no connections."""

    def _step(self, prompt: ModelPrompt) -> ScriptedAnswer:
        newest = _text(prompt, newest=True)
        for step in self._named:
            if step.when is not None and step.when in newest:
                return step
        if not self._ordered:
            raise Fault("UPSTREAM_ERROR", "the script has no answer to this")
        return self._ordered[_answers(prompt) % len(self._ordered)]


def _answers(prompt: ModelPrompt) -> int:
    return sum(message.role == "assistant" for message in prompt.messages)


def _text(prompt: ModelPrompt, *, newest: bool = False, results: bool = False) -> str:
    """The newest user text, tool result, or both, without labels of servers."""
    for message in reversed(prompt.messages):
        found = [part.text for part in message.parts if isinstance(part, ModelToolResult)] if results or newest else []
        injected = {each.part for each in message.injected} if newest else ()
        texts = [(at, part.text) for at, part in enumerate(message.parts) if isinstance(part, TextContent)]
        found += [content_without_label(text) if at in injected else text for at, text in texts] if not results else []
        if message.role == "user" and found:
            return "\n".join(found)
    return ""


def _filled(text: str, prompt: ModelPrompt) -> str:
    if "{" not in text:
        return text
    values = {"{user}": _text(prompt), "{result}": _text(prompt, results=True), "{system}": prompt.system}
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def _filled_in(value: Any, prompt: ModelPrompt) -> Any:
    """Fill in the placeholders in every text of the arguments."""
    if isinstance(value, str):
        return _filled(value, prompt)
    if isinstance(value, dict):
        return {name: _filled_in(inner, prompt) for name, inner in value.items()}
    return [_filled_in(inner, prompt) for inner in value] if isinstance(value, list) else value
