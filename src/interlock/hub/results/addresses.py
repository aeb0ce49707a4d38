"""Links and embedded resources in results lead back through the hub, under the addresses it gave them."""

from __future__ import annotations

import msgspec

from interlock.hub.catalog.addresses import exposed_uri


def with_exposed_uris(server: str, result: bytes) -> bytes:
    """A result of a tool, prompt or resource of a server, for a view of many servers."""
    value = msgspec.json.decode(result)
    for block in [*_blocks(value.get("content")), *_blocks(value.get("contents")), *_messages(value)]:
        holder = block.get("resource") if isinstance(block.get("resource"), dict) else block
        if isinstance(holder, dict) and isinstance(holder.get("uri"), str):
            holder["uri"] = exposed_uri(server, holder["uri"])
    return msgspec.json.encode(value)


def _blocks(value: object) -> list[dict[str, object]]:
    return [block for block in value if isinstance(block, dict)] if isinstance(value, list) else []


def _messages(value: dict[str, object]) -> list[dict[str, object]]:
    contents = (message.get("content") for message in _blocks(value.get("messages")))
    return [content for content in contents if isinstance(content, dict)]
