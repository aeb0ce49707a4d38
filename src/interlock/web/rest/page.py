"""The documentation page. It loads only from this hub, and shows texts of tools only as text."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from interlock.web.rest.outcomes import RequestInfo

_FOLDER: Final = Path(__file__).parent


async def documentation_page(request: Request, info: RequestInfo) -> Response:
    """The page contains no data. It requests the tools with the key that its reader enters."""
    text, policy = _page()
    return HTMLResponse(text, headers={"content-security-policy": policy, "x-content-type-options": "nosniff"})


@cache
def _page() -> tuple[str, str]:
    """The page with its style and script inline, and a content security policy that allows only these."""
    text = (_FOLDER / "page.html").read_text("utf-8")
    digests = []
    for file in ("page.css", "page.js"):
        content = (_FOLDER / file).read_text("utf-8")
        text = text.replace(f"/* {file} */", content)
        digests.append(_digest(content))
    policy = (
        f"default-src 'none'; style-src '{digests[0]}'; script-src '{digests[1]}'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text, policy


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
