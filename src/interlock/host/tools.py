"""The tools of a conversation: the list of its principal, and calls through the hub's gates as that principal.

A call that needs approval opens an approval request like any other, and is made again after a person has answered.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from interlock.host.models.endpoint import arguments_of
from interlock.host.models.media import is_image
from interlock.host.models.model import ToolDefinition, ToolUse
from interlock.hub.app import HubApp
from interlock.hub.approvals.decision import Decision
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.states import DecisionState
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Caller
from interlock.hub.calls.local_exchange import call_locally
from interlock.hub.calls.refusals import is_refusal
from interlock.hub.live.server_states import CallStates
from interlock.protocols.mcpl.content import ImageContent
from interlock.wire.errors import Fault

LIST_S: Final = 30.0
CALL_S: Final = 86_400.0
"""The timeout of a call. The hub's own timeouts end it long before."""
MAX_TOOLS: Final = 512
MAX_RESULT_CHARS: Final = 128 * 1024
"""Longer results are cut, and say so."""
MAX_IMAGES: Final = 4
MAX_IMAGE_CHARS: Final = 256 * 1024
"""Base64 characters of all images of one result."""

OnApproval = Callable[[str], None]


class ToolOutcome(msgspec.Struct, frozen=True):
    """The outcome of a tool call, for the model."""

    text: str
    failed: bool = False
    images: tuple[ImageContent, ...] = ()
    refused: bool = False
    """Whether a gate refused the call before it was sent."""


class Tools:
    """The tools of one hub, for conversations."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app

    def admit(self, principal: Principal) -> Caller:
        """The caller of a principal. Raises a `Fault` if its key was revoked or the hub refuses all calls."""
        if (refusal := self._hub_app.refusal) is not None:
            raise refusal[1]
        if self._hub_app.access.rights(principal) is None:
            hint = "begin a conversation with another agent"
            raise Fault("ACCESS_DENIED", f"the key of {principal.id} is no longer valid", hint=hint)
        return self._hub_app.authenticator.admit_principal(principal, "/mcp")

    async def list(self, caller: Caller) -> tuple[ToolDefinition, ...]:
        """The tools in the caller's list, sorted by name, so that the same list gives the same prompt."""
        found: list[ToolDefinition] = []
        cursor: str | None = None
        while len(found) < MAX_TOOLS:
            params = msgspec.json.encode({} if cursor is None else {"cursor": cursor})
            answer = await call_locally(self._hub_app.service, caller, "tools/list", params, LIST_S)
            page = msgspec.json.decode(answer, type=_Listed)
            found += [ToolDefinition(tool.name, tool.description or "", tool.inputSchema) for tool in page.tools]
            cursor = page.nextCursor
            if cursor is None:
                break
        return tuple(sorted(found, key=lambda tool: tool.name))[:MAX_TOOLS]

    async def call(
        self, principal: Principal, use: ToolUse, states: CallStates, on_approval: OnApproval
    ) -> ToolOutcome:
        """Make a call. Every failure is an outcome, so that the model can go on."""
        arguments = arguments_of(use.arguments)
        if arguments is None:
            text = "The arguments are not a JSON object. Write them as one, and call again."
            return ToolOutcome(text, failed=True, refused=True)
        params = msgspec.json.encode({"name": use.name, "arguments": arguments})
        ends = time.monotonic() + self._hub_app.config.host.approval_s
        waiting = _Approvals(self._hub_app.inbox, principal, use.name, on_approval)
        try:
            while True:
                result = await self._attempt(principal, params, states)
                if isinstance(result, ToolOutcome):
                    return result
                decision = result.pending
                if decision is None or not await waiting.answered(decision, ends - time.monotonic()):
                    images = _images(result)
                    return ToolOutcome(_text(result, images), result.isError, tuple(images.values()), result.refused)
        finally:
            waiting.close()

    async def _attempt(self, principal: Principal, params: bytes, states: CallStates) -> _Called | ToolOutcome:
        try:
            caller = self.admit(principal)
            answer = await call_locally(self._hub_app.service, caller, "tools/call", params, CALL_S, states)
            states.reported = answer
            return msgspec.json.decode(answer, type=_Called)
        except Fault as fault:
            hint = f" {fault.hint}" if fault.hint else ""
            return ToolOutcome(f"{fault.name}: {fault.message}{hint}", failed=True, refused=_was_refused(fault))
        except msgspec.DecodeError as cause:
            return ToolOutcome(f"The result cannot be read: {cause}", failed=True)


class _Approvals:
    """The approval requests that one call opens. Each is reported once, when it is opened."""

    def __init__(self, inbox: Inbox, principal: Principal, tool: str, on_approval: OnApproval) -> None:
        self._inbox = inbox
        self._asker = (principal.id, principal.kind)
        self._tool = tool
        self._on_approval = on_approval
        self._announced: set[str] = set()
        self._changed = asyncio.Event()
        self._stop = inbox.on_change(self._on_change)

    async def answered(self, id: str, within_s: float) -> bool:
        """Wait until a person has answered a request. False if nobody answers in time."""
        ends = time.monotonic() + within_s
        self._tell(id)
        while True:
            try:
                if self._inbox.get(id).state is not DecisionState.OPEN:
                    return True
            except Fault:
                return False
            self._changed.clear()
            try:
                async with asyncio.timeout(max(ends - time.monotonic(), 0)):
                    await self._changed.wait()
            except TimeoutError:
                return False

    def close(self) -> None:
        """Stop following approval requests."""
        self._stop()

    def _on_change(self, decision: Decision) -> None:
        self._changed.set()
        request = decision.request
        mine = (request.asker, request.asker_kind, request.shown) == (*self._asker, self._tool)
        if mine and decision.state is DecisionState.OPEN:
            self._tell(decision.id)

    def _tell(self, id: str) -> None:
        if id not in self._announced:
            self._announced.add(id)
            self._on_approval(id)


def _was_refused(fault: Fault) -> bool:
    """Whether the call was not sent to a server. A refusal may look like the error for an unknown tool."""
    return is_refusal(fault) or (fault.foreign_code is None and fault.name == "TOOL_NOT_FOUND")


def _images(result: _Called) -> dict[int, ImageContent]:
    """The images of a result for a model, by position: of known types, and within bounds."""
    found: dict[int, ImageContent] = {}
    left = MAX_IMAGE_CHARS
    for place, block in enumerate(result.content):
        data, kind = block.get("data"), block.get("mimeType")
        if block.get("type") != "image" or not isinstance(data, str):
            continue
        if len(data) <= left and len(found) < MAX_IMAGES and is_image(kind, data):
            found[place] = ImageContent(data=data, mime_type=kind)
            left -= len(data)
    return found


def _text(result: _Called, images: Mapping[int, ImageContent]) -> str:
    """A result as text. Notes replace media; a model with vision also gets those in `images`."""
    texts = []
    for place, block in enumerate(result.content):
        kind = block.get("type")
        if kind == "text":
            texts.append(str(block.get("text", "")))
        elif kind in ("image", "audio"):
            texts.append(f"[{block.get('mimeType', kind)}{'' if place in images else ', not shown'}]")
        else:
            texts.append(msgspec.json.encode(block).decode())
    if not texts and result.structuredContent is not None:
        texts.append(msgspec.json.encode(result.structuredContent).decode())
    text = "\n".join(texts)
    if len(text) > MAX_RESULT_CHARS:
        text = f"{text[:MAX_RESULT_CHARS]}\n[cut: the result has {len(text)} characters]"
    return text


class _Listed(msgspec.Struct):
    class Tool(msgspec.Struct):
        name: str
        inputSchema: msgspec.Raw
        description: str | None = None

    tools: list[Tool]
    nextCursor: str | None = None


class _Called(msgspec.Struct):
    content: list[dict[str, Any]] = []
    isError: bool = False
    structuredContent: dict[str, Any] | None = None
    meta: dict[str, Any] = msgspec.field(default_factory=dict, name="_meta")

    @property
    def pending(self) -> str | None:
        """The approval request that the call waits for."""
        decision = self._error.get("decision") if self._error.get("name") == "APPROVAL_PENDING" else None
        return decision if isinstance(decision, str) else None

    @property
    def refused(self) -> bool:
        """Whether a gate refused the call."""
        return "gate" in self._error

    @property
    def _error(self) -> dict[str, Any]:
        """The hub's own error in the result. Only the hub writes this member."""
        error = self.meta.get("dev.interlock/error")
        return error if self.isError and isinstance(error, dict) else {}
