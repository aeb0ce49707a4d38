"""The hub's own secret: random bytes in a file that only its user can read. Every other key of the hub is derived."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import sys
from pathlib import Path

from .files import write_atomically


class BadHubSecret(Exception):
    """The secret cannot be used."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def hub_secret(path: Path) -> bytes:
    """The secret, made at first use. Raises BadHubSecret for one that is weak, or that other users can read."""
    try:
        if not path.exists():
            secret = secrets.token_bytes(32)
            write_atomically(path, secret)
            return secret
    except OSError as cause:
        raise _unusable(path, cause) from None
    return existing_secret(path)


def existing_secret(path: Path) -> bytes:
    """The secret of a home that has one. Raises BadHubSecret."""
    try:
        secret, mode = path.read_bytes(), path.stat().st_mode
    except OSError as cause:
        raise _unusable(path, cause) from None
    if sys.platform != "win32" and mode & 0o077:
        raise BadHubSecret(f"other users can read or write {path}, the secret of all keys", f"run `chmod 600 {path}`")
    # Random bytes have many different values; a typed word or a repeated byte has few.
    if len(secret) < 32 or len(set(secret)) < 16 or secret.isalpha():
        raise BadHubSecret(f"{path} is too weak to be a secret", "delete it, and create the keys again")
    return secret


def _unusable(path: Path, cause: OSError) -> BadHubSecret:
    hint = "make room on that disk, and see that this user can read and write the folder"
    return BadHubSecret(f"{path}: {cause.strerror or cause}", hint)


def derived_key(secret: bytes, purpose: bytes) -> bytes:
    """The key for one purpose."""
    return hmac.digest(secret, b"interlock:" + purpose, hashlib.sha256)
