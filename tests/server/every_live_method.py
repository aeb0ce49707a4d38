"""A server of the library that sends and takes every method of MCPL in the dialect that its argument names.

Its tool `go` sends all that a server may send, and its tool `heard` answers with the methods that its functions got.
"""

from __future__ import annotations

import sys
from typing import Any

from interlock.server import (
    Acknowledge,
    AfterInference,
    BeforeInference,
    Channel,
    ChannelAuthor,
    CloseChannel,
    IncomingMessage,
    Lifecycle,
    OpenChannel,
    OutgoingChunk,
    OutgoingComplete,
    Publish,
    Server,
    Typing,
)

old = sys.argv[1] == "0.4"
server = Server("every")
heard: list[str] = []
server.feature("every.recall", "Recalls", uses=["contextHooks.beforeInference"])
server.feature("every.think", "Thinks", uses=["inferenceRequest"])
server.feature("every.push", "Pushes", uses=["pushEvents"])
server.feature("every.edit", "Edits", uses=["tools"], rollback=True, scoped=old)
server.feature("every.talk", "Talks", uses=["channels.publish", "channels.observe"])
server.channel("chat:#general", "chat", "#general")


@server.before_inference("every.recall")
def recall(turn: BeforeInference) -> str:
    heard.append("context/beforeInference")
    return "Likes tea."


@server.rollback("every.edit")
def undo(checkpoint: str) -> None:
    heard.append("state/rollback")


@server.on_publish
def deliver(message: Publish) -> str:
    heard.append("channels/publish")
    return "msg_1"


@server.on_outgoing
def observe(message: OutgoingChunk | OutgoingComplete) -> None:
    chunk = isinstance(message, OutgoingChunk)
    heard.append("channels/outgoing/chunk" if chunk else "channels/outgoing/complete")


@server.on_open
def open_channel(wanted: OpenChannel) -> Channel:
    heard.append("channels/open")
    return Channel("chat:#new", wanted.type, "Opened", "bidirectional", wanted.address)


@server.on_close
def close_channel(channel: CloseChannel) -> bool:
    heard.append("channels/close")
    return True


if old:
    server.feature("every.check", "Checks", uses=["contextHooks.afterInference"])

    @server.after_inference("every.check", blocking=True)
    def check(turn: AfterInference) -> str:
        heard.append("context/afterInference")
        return turn.assistant_message.replace("secret", "[removed]")

else:
    signs = ["channels.register", "channels.typing", "channels.acknowledge"]
    server.feature("every.signs", "Signs", uses=signs)
    server.feature("every.watch", "Watches", uses=["inferenceLifecycle"])

    @server.on_lifecycle("every.watch")
    def watch(signal: Lifecycle) -> None:
        heard.append("inference/lifecycle")

    @server.on_typing
    def typing(sign: Typing) -> None:
        heard.append("channels/typing")

    @server.on_acknowledge
    def acknowledge(message: Acknowledge) -> bool:
        heard.append("channels/acknowledge")
        return True


@server.tool
async def go() -> list[Any]:
    """Send all that a server may send."""
    pieces: list[str] = []
    inferred = await server.infer("every.think", "Summarize", on_chunk=pieces.append)
    if len(pieces) > 1:
        heard.append("inference/chunk")
    (pushed,) = await server.push("every.push", "The tide is low.")
    message = IncomingMessage("chat:#general", "d1", ChannelAuthor("u1", "Ann"), "2026-03-05T10:30:00Z", "Hi")
    (received,) = await server.incoming(message)
    elevated = (await server.elevate("every.edit", "/etc/hosts")).approved if old else None
    server.channel("chat:#random", "chat", "#random")
    server.feature("every.late", "Comes late")
    return [inferred.content, (await server.model_info()).id, pushed.accepted, received.accepted, elevated]


@server.tool(name="heard")
def methods_heard() -> list[str]:
    """Name the methods that its functions got."""
    return heard


server.run()
