"""Which addresses a person's browser may be sent to: pages of the web, not scripts or files."""

from __future__ import annotations

from urllib.parse import urlsplit


def is_web_page(url: str) -> bool:
    """Whether an address may be shown as a link: `http` or `https` with a host, without blanks and control characters,
    which browsers remove."""
    if any(ord(char) <= 0x20 or ord(char) == 0x7F for char in url):
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
