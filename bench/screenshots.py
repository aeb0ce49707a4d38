"""Makes the pictures of the console in `docs/images`: a hub with demo servers and calls, in Chromium without a window.

Usage: python bench/screenshots.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from hub.running_hub import RawClient  # noqa: E402
from web.browser import browser  # noqa: E402
from web.console_hub import HubInThread  # noqa: E402

PICTURES = ROOT / "docs" / "images"
PAGES = {
    "approvals": "/approvals",
    "timeline": "/timeline",
    "servers": "/servers",
    "agents": "/agents",
    "rooms": "/rooms/build",
}
AGENTS = ("coder", "researcher", "planner")


async def _work(hub: HubInThread, number: int) -> None:
    """One call of an agent, of different kinds and outcomes."""
    kinds = (("echo", {"text": "hello " * (1 + number * 37 % 4000)}), ("add", {"a": number, "b": 1}))
    tool, arguments = kinds[number % 2] if number % 9 else ("echo", {"text": number})
    client = RawClient(hub.hub.url + "/mcp", hub.hub.key(AGENTS[number % 3]))
    await client.modern("tools/call", {"name": f"busy__{tool}", "arguments": arguments})


def main() -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with HubInThread(home / "hub").running() as hub, browser(home / "browser") as page:
            page.open(f"{hub.address}/login#code={hub.code()}")
            page.until("location.pathname === '/console'")
            for number in range(60):
                hub.do(lambda number=number: _work(hub, number))
            for text in ("rename the report to march.txt", "send the report to the board"):
                hub.ask(text)
            page.open(f"{hub.address}/approvals")
            page.run("document.querySelector('button[value=once]').click()")
            page.until("document.body?.innerText.includes('is approved')")
            hub.ask("rename the report to march.txt")
            hub.in_room("join_room")
            page.open(f"{hub.address}/rooms/build")
            hub.in_room("say_in_room", text="The tests are green. I would like to publish the release notes.")
            notes = {"name": "echo", "arguments": {"text": "Release notes of 1.4"}}
            hub.in_room("propose_in_room", method="tools/call", params=notes, to=["server:busy"])
            for name, path in PAGES.items():
                page.open(f"{hub.address}{path}")
                page.until("document.documentElement.dataset.live")
                page.picture(PICTURES / f"console-{name}.png", 1000, 620)
                print(f"docs/images/console-{name}.png")


if __name__ == "__main__":
    main()
