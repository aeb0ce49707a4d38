"""The documentation page: it loads nothing from anywhere but this hub, and shows tools' words as text only."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from interlock.web.rest.outcomes import Where

_FOLDER: Final = Path(__file__).parent


async def documentation_page(request: Request, where: Where) -> Response:
    """The page. It holds no secret; what it shows it asks for with the key its reader gives."""
    text, policy = _page()
    return HTMLResponse(text, headers={"content-security-policy": policy, "x-content-type-options": "nosniff"})


@cache
def _page() -> tuple[str, str]:
    """One document with its style and its script in it, and the policy that lets nothing else in."""
    text = (_FOLDER / "page.html").read_text("utf-8")
    digests = []
    for file in ("page.css", "page.js"):
        held = (_FOLDER / file).read_text("utf-8")
        text = text.replace(f"/* {file} */", held)
        digests.append(_digest(held))
    policy = (
        f"default-src 'none'; style-src '{digests[0]}'; script-src '{digests[1]}'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text, policy


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
