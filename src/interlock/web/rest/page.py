"""The documentation page: it loads nothing from anywhere but this hub, and shows tools' words as text only."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from interlock.web.rest.outcomes import Where

_FILE: Final = Path(__file__).with_name("page.html")


async def documentation_page(request: Request, where: Where) -> Response:
    """The page. It holds no secret; what it shows it asks for with the key its reader gives."""
    text, policy = _page()
    return HTMLResponse(text, headers={"content-security-policy": policy, "x-content-type-options": "nosniff"})


@cache
def _page() -> tuple[str, str]:
    text = _FILE.read_text("utf-8")
    script, style = (_digest(re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[0]) for tag in ("script", "style"))
    policy = (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text, policy


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
