"""A server of the official SDK whose tool adds a resource and says that the list changed. Over standard streams."""

from __future__ import annotations

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resources import TextResource

server = MCPServer("adding")


@server.resource("note://first")
def first() -> str:
    """A resource of every process."""
    return "first"


@server.tool()
async def add(name: str, ctx: Context, description: str | None = None) -> str:
    """Add a resource to this process."""
    added = TextResource(uri=f"note://{name}", name=name, description=description, text=f"text of {name}")
    server.add_resource(added)
    await ctx.session.send_resource_list_changed()
    return name


if __name__ == "__main__":
    server.run("stdio")
