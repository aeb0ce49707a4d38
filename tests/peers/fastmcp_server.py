"""A server written with FastMCP, in the way its documentation shows. It runs where that package is installed."""

# mypy: ignore-errors
from __future__ import annotations

from dataclasses import dataclass

from fastmcp import Context, FastMCP

server: FastMCP = FastMCP("fastmcp-peer")


@dataclass
class Name:
    name: str


@server.tool
async def elicit(ctx: Context) -> str:
    """Asks the person for a name."""
    answer = await ctx.elicit("Who are you?", Name)
    return f"accepted {answer.data.name}" if answer.action == "accept" else answer.action


@server.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


if __name__ == "__main__":
    server.run(show_banner=False)
