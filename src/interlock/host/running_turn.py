"""The state of a running turn, and its messages for the store. Pure.

Every call is stored with its result, or with a note that it has none, because models refuse a call without a result.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from interlock.host.conversations import MAX_TURN_BYTES, StablePrefix
from interlock.host.models.media import without_media
from interlock.host.models.model import Finish, ModelMessage, ModelToolResult, ToolDefinition, ToolUse
from interlock.host.prompt import user_message
from interlock.host.turn import Turn
from interlock.protocols.mcpl.content import TextContent
from interlock.protocols.mcpl.inference import TokenUsage
from interlock.protocols.mcpl.injections import arrange
from interlock.wire.errors import Fault

MAX_CHARS: Final = MAX_TURN_BYTES // 4
NO_RESULT: Final = "Stopped: there is no result. The tool may have done its work."
NOT_CALLED: Final = "Not called: the turn was stopped before."
CUT_CHARS: Final = 1000
"""Characters of each result that are kept in a turn that became too large."""
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_STRANGE: Final = re.compile(r"[^A-Za-z0-9_-]")
MAX_NAME: Final = 64
"""Characters of the name of an unknown tool. Endpoints refuse prompts with longer names."""


class RunningTurn:
    """The state of one turn."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.conversation = turn.conversation
        self.version = 0
        """Of the stored turn; 0 until it is stored."""
        self.messages: list[ModelMessage] = []
        self.text = ""
        """Everything that the model said in this turn."""
        self.usage = TokenUsage(0, 0)
        self.finish: Finish = "end_turn"
        self._withheld = False
        """Whether a server may still replace everything that the model said."""
        self._size = 0
        self._ids: set[str] = set()
        self._open: list[ToolUse] = []
        """The calls of the round that is under way."""
        self._results: list[ModelToolResult] = []
        self._begun = 0
        """How many of these calls were begun."""

    def store_as(self, version: int) -> None:
        """Note the version under which the turn is stored."""
        self.version = version

    def hold(self, *, withheld: bool) -> None:
        """Keep the model's text out of the store until the end, because a server may replace it."""
        self._withheld = withheld

    def use(self, stable: StablePrefix) -> None:
        """Set the stable part of the prompt."""
        self.conversation = msgspec.structs.replace(self.conversation, stable=stable)

    def keep_from(self, first: int) -> None:
        """Leave out turns before this one from now on."""
        stored = msgspec.structs.replace(self.conversation.stored, first=first)
        self.conversation = msgspec.structs.replace(self.conversation, stored=stored)

    def spend(self, usage: TokenUsage) -> None:
        """Add the tokens of one inference."""
        self.usage = TokenUsage(
            self.usage.input_tokens + usage.input_tokens, self.usage.output_tokens + usage.output_tokens
        )

    # Tool calls.

    def know_ids(self, earlier: Iterable[ModelMessage]) -> None:
        """Note the ids of calls in earlier messages of the prompt."""
        self._ids |= {part.id for message in earlier for part in message.parts if isinstance(part, ToolUse)}

    def named(self, use: ToolUse, offered: Sequence[ToolDefinition]) -> ToolUse:
        """The call with a unique id, and a name that every endpoint accepts in later prompts."""
        id_, name = use.id, use.name
        while id_ in self._ids or not _ID.fullmatch(id_):
            id_ = f"c{secrets.token_hex(4)}"  # Nine letters and digits, as the strictest endpoints require.
        self._ids.add(id_)
        if all(tool.name != name for tool in offered):
            name = _STRANGE.sub("_", name)[:MAX_NAME] or "unnamed"
        return use if (id_, name) == (use.id, use.name) else ToolUse(id_, name, use.arguments)

    def answered(self, text: str, calls: list[ToolUse], finish: Finish) -> None:
        """Note an answer of the model: its text, its tool calls, and its stop reason. A round of calls begins."""
        texts = (TextContent(text),) if text else ()
        if texts or calls:
            self.check_room(len(text) + sum(len(use.arguments) for use in calls))
            self.messages.append(ModelMessage("assistant", (*texts, *calls)))
        self.text = f"{self.text}\n\n{text}" if self.text and text else self.text or text
        self.finish = finish
        self._open, self._results, self._begun = calls, [], 0

    def begin_call(self) -> None:
        """Note that the next call of the round begins."""
        self._begun += 1

    def end_call(self, result: ModelToolResult) -> None:
        """Note the result of the call. Raises TOO_LARGE if it does not fit; then all results of the turn are cut."""
        self._results.append(result)
        try:
            self.check_room(len(result.text) + sum(len(image.data or "") for image in result.images))
        except Fault:
            # The turn fails. With whole results it would not fit into the next prompt, and the model would not learn
            # of its calls.
            self._results = [_cut(each) for each in self._results]
            self.messages = [_with_cut_results(message) for message in self.messages]
            raise

    def end_round(self) -> None:
        """End a round whose calls all have results."""
        self.messages.append(ModelMessage("user", tuple(self._results)))
        self._open, self._results = [], []

    def rewrite(self, text: str) -> None:
        """Replace all text of the model."""
        self.text = text
        self.messages = [
            *_without_words(self.messages),
            *([ModelMessage("assistant", (TextContent(text),))] if text else []),
        ]

    def check_room(self, chars: int) -> None:
        """Count text of the turn. Raises TOO_LARGE beyond the limit of a turn."""
        self._size += chars
        if self._size > MAX_CHARS:
            raise Fault("TOO_LARGE", f"a turn holds at most {MAX_CHARS} characters")

    def to_store(self, *, ended: bool = False) -> list[ModelMessage]:
        """The messages so far, for the store.

        Before the turn has ended, they lack media, which an endpoint may always refuse, and text that a server may
        replace.
        """
        messages = self.messages or self._beginning()
        if self._open:
            messages = [*messages, ModelMessage("user", (*self._results, *self._missing()))]
        if ended:
            return messages
        return [without_media(message) for message in (_without_words(messages) if self._withheld else messages)]

    def _beginning(self) -> list[ModelMessage]:
        """The first message, before servers have added to it."""
        message = user_message(self.turn.user_message, arrange(self.turn.context))
        return [message] if message.parts else []

    def _missing(self) -> list[ModelToolResult]:
        """Notes for calls without a result. A call that was not begun had no effect, like a refused one."""
        under_way, later = self._open[len(self._results) : self._begun], self._open[self._begun :]
        return [
            *(ModelToolResult(use.id, NO_RESULT, failed=True) for use in under_way),
            *(ModelToolResult(use.id, NOT_CALLED, failed=True, refused=True) for use in later),
        ]


def _without_words(messages: Iterable[ModelMessage]) -> list[ModelMessage]:
    """Messages without the model's text."""
    kept = []
    for message in messages:
        parts = tuple(part for part in message.parts if message.role == "user" or not isinstance(part, TextContent))
        if parts:
            kept.append(msgspec.structs.replace(message, parts=parts))
    return kept


def _with_cut_results(message: ModelMessage) -> ModelMessage:
    parts = tuple(_cut(part) if isinstance(part, ModelToolResult) else part for part in message.parts)
    return msgspec.structs.replace(message, parts=parts)


def _cut(result: ModelToolResult) -> ModelToolResult:
    """The result without its images, and with the beginning of a long text."""
    text = result.text
    if len(text) > CUT_CHARS:
        text = f"{text[:CUT_CHARS]}\n[cut: the result has {len(text)} characters, and the turn became too large]"
    return msgspec.structs.replace(result, text=text, images=())
