"""A server with a thousand tools, of which one is the one."""

from __future__ import annotations

import asyncio
import sys

from interlock.server import Server, Tool

SUBJECTS = [
    "invoice",
    "calendar",
    "ticket",
    "customer",
    "warehouse",
    "recipe",
    "flight",
    "playlist",
    "sensor",
    "contract",
]
ACTIONS = ["create", "list", "delete", "archive", "export", "merge", "translate", "rename", "approve", "count"]


def many_server(count: int, words: int = 0) -> Server:
    instructions = "Ask the harbour master first. " + "Mind the tide, always! " * (words // 4) if words else None
    server = Server("many", "1.0.0", instructions=instructions)

    def make(number: int) -> Tool:
        action, subject = ACTIONS[number % 10], SUBJECTS[number // 10 % 10]

        async def tool(name: str, note: str = "") -> str:
            return f"{number}: {name}"

        tool.__doc__ = f"{action.title()} a {subject} of department {number // 100}, with its history and attachments."
        return Tool(tool, name=f"{action}_{subject}_{number // 100}")

    for number in range(count - 1):
        server.add_tool(make(number))

    @server.tool
    async def measure_tide_height(harbour: str) -> str:
        """Tell how high the sea stands at a harbour now."""
        return f"2.4 m at {harbour}"

    return server


if __name__ == "__main__":
    asyncio.run(many_server(*map(int, sys.argv[1:])).serve_stdio())
