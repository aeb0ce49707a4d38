"""A running turn: its pieces for any number of readers, kept in memory for a while."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import Final, Literal

import msgspec

from interlock.host.conversations import Conversation
from interlock.host.models.model import Model
from interlock.hub.auth.principals import Principal
from interlock.protocols.mcpl.inference import ModelInfo
from interlock.protocols.mcpl.injections import SourcedInjection
from interlock.wire.errors import Fault

MAX_PIECES: Final = 100_000
MAX_TEXT: Final = 4 * 1024 * 1024
"""Characters of all pieces of one turn."""

Kind = Literal["text", "thinking", "tool", "result", "approval", "done", "error"]


class TurnPiece(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a turn, as it comes."""

    kind: Kind
    text: str = ""
    """For `text` and `thinking`: the next piece. For `tool`: the arguments. For `result`: its text. For `done`: the
    whole answer. For `error`: the reason."""
    name: str = ""
    """For `tool` and `result`: the tool. For `approval`: the id of the request. For `error`: the name of the error."""
    failed: bool = False
    """For `result`: whether the call failed or was refused."""
    input_tokens: int = 0
    output_tokens: int = 0
    """For `done`: the tokens of the whole turn."""
    finish: str = ""
    """For `done`: why the model stopped."""


class Turn:
    """A turn of a conversation. Iterate it for its pieces; `answer` waits for the whole answer."""

    def __init__(
        self,
        conversation: Conversation,
        user_message: str | None,
        model: Model,
        context: tuple[SourcedInjection, ...] = (),
        *,
        calls_wait: bool = False,
    ) -> None:
        self.conversation = conversation
        self.index = conversation.stored.turns
        self.inference_id = f"inf_{secrets.token_hex(12)}"
        self.user_message = user_message
        """None where no user spoke: the turn was woken."""
        self.model = model
        self.context = context
        """Context that the host itself adds, such as events that woke the turn."""
        self.unmoderated: str | None = None
        """The answer as the model wrote it, where a server replaced it."""
        self.pieces: list[TurnPiece] = []
        self._chars = 0
        self._changed = asyncio.Event()
        self._begun = asyncio.Event()
        self._may_call = asyncio.Event()
        """Set unless the calls of the turn are held until the messages that began it are marked as answered."""
        if not calls_wait:
            self._may_call.set()
        self._refused: Fault | None = None

    @property
    def conversation_id(self) -> str:
        return self.conversation.id

    @property
    def principal(self) -> Principal:
        """The principal whose rights the turn has."""
        return self.conversation.principal

    @property
    def model_info(self) -> ModelInfo:
        """The model information for servers."""
        return self.model.info

    @property
    def ended(self) -> bool:
        """Whether its last piece has come."""
        return bool(self.pieces) and self.pieces[-1].kind in ("done", "error")

    def keep_unmoderated(self, text: str) -> None:
        """Keep the unmoderated answer of the model. It is not a piece, so no reader of the turn sees it."""
        self.unmoderated = text

    def begin(self, refused: Fault | None = None) -> None:
        """Note that the turn is stored, or `refused` if it could not be. Only the first call counts."""
        if not self._begun.is_set():
            self._refused = refused
            self._begun.set()

    async def begun(self) -> None:
        """Wait until the turn is stored. Raises the `Fault` if it could not be stored."""
        await self._begun.wait()
        if self._refused is not None:
            raise self._refused

    async def acted(self) -> None:
        """Wait until the turn calls a tool or ends. After that, it must not be repeated."""
        async for piece in self:
            if piece.kind in ("tool", "done", "error"):
                return

    def let_call(self) -> None:
        """Let the calls of the turn be made from now on."""
        self._may_call.set()

    async def may_call(self) -> None:
        """Wait until the calls of the turn may be made."""
        await self._may_call.wait()

    def add(self, piece: TurnPiece) -> None:
        """Add a piece for the readers. Raises TOO_LARGE beyond the limits of a turn."""
        last = piece.kind in ("done", "error")
        self._chars += len(piece.text)
        if not last and (len(self.pieces) >= MAX_PIECES or self._chars > MAX_TEXT):
            raise Fault("TOO_LARGE", f"a turn has at most {MAX_TEXT} characters and {MAX_PIECES} pieces")
        self.pieces.append(piece)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def read(self, after: int, wait_s: float) -> list[TurnPiece]:
        """The pieces after the first `after`. Waits up to `wait_s` if there is none yet."""
        if after >= len(self.pieces) and not self.ended:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
        return self.pieces[after:]

    async def __aiter__(self) -> AsyncIterator[TurnPiece]:
        at = 0
        while not (self.ended and at >= len(self.pieces)):
            if at >= len(self.pieces):
                await self._changed.wait()
                continue
            yield self.pieces[at]
            at += 1

    async def answer(self) -> str:
        """Wait for the whole answer. Raises a `Fault` if the turn failed."""
        async for piece in self:
            if piece.kind == "error":
                raise Fault(piece.name, piece.text)
            if piece.kind == "done":
                return piece.text
        raise Fault("INTERNAL_ERROR", "the turn has no end")
