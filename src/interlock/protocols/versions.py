"""Version numbers as peers write them."""

from __future__ import annotations


def read_version(version: str) -> tuple[int, int] | None:
    """Major and minor of a version such as `0.4` or `0.5.0-draft`; None for any other text."""
    parts = version.split("-")[0].split(".")
    if len(parts) < 2 or not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        return None
    return int(parts[0]), int(parts[1])
