"""A server with channels: it opens any that it is asked for."""

from __future__ import annotations

from interlock.server import Channel, OpenChannel, Server

server = Server("chat")
server.feature("news.talk", "Talk", uses=["channels.publish", "channels.observe"])
server.channel("chat:#general", "chat", "#general")


@server.on_open
async def open_channel(wanted: OpenChannel) -> Channel:
    return Channel("chat:#new", "chat", "New", "bidirectional", wanted.address)


server.on_close(lambda wanted: True)
server.run()
