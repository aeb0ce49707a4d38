"""The full text that a person reads before approving a call. It leaves nothing out; only secrets are masked.

A masked secret shows its kind, its length and its last characters. A value is not a secret because of its name alone:
an agent could hide a command in an argument named `token`.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import msgspec

from interlock.judge.secrets import find_secrets
from interlock.store.secret_names import names_a_secret

MAX_CHARS: Final = 1024 * 1024
"""Upper bound for a view. A person cannot check more, and a call with more cannot be approved."""
ON_LOOP_BYTES: Final = 8 * 1024
"""Larger arguments and views are handled in a thread."""
_CREDENTIAL: Final = re.compile(r"\d{4,12}|(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9+=_-]{8,512}")
"""A value that looks random. Its characters rule out a path, an address or a command line, whose parts are separated
by other characters."""
_USER_INFO: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]{0,30}://([A-Za-z0-9._~%!$&'()*+,;=:\-]{1,512})@[A-Za-z0-9\[]")
"""The user and password of an address. Other characters would end them for some readers, and begin the host."""
_SHOWN_END: Final = 4

Result = TypeVar("Result")


async def full_view(arguments: object) -> str:
    """The view of a call's arguments; "" if it would be too long."""
    encoded = msgspec.json.encode(arguments)
    if len(encoded) > 4 * MAX_CHARS:
        return ""
    view = await by_size(len(encoded), partial(rendered, encoded))
    return view if len(view) <= MAX_CHARS else ""


async def by_size(size: int, work: Callable[[], Result]) -> Result:
    """Run work on `size` bytes: on the loop, or in a thread if they are many."""
    return work() if size <= ON_LOOP_BYTES else await asyncio.to_thread(work)


def rendered(arguments: bytes) -> str:
    """JSON with one member on each line, and masked secrets."""
    masked = _masked(msgspec.json.decode(arguments), "")
    return msgspec.json.format(msgspec.json.encode(masked), indent=2).decode()


def hash_of(view: str) -> str:
    """The hash of a view. Whoever approves sends it as proof that the view was opened."""
    return hashlib.sha256(view.encode()).hexdigest()


def _masked(value: object, name: str) -> object:
    if isinstance(value, str):
        return _masked_text(value, name)
    if isinstance(value, dict):
        return {_masked_text(str(key), ""): _masked(member, str(key)) for key, member in value.items()}
    if isinstance(value, list):
        return [_masked(item, name) for item in value]
    return value


def _masked_text(text: str, name: str) -> str:
    if name and names_a_secret(name):
        if _CREDENTIAL.fullmatch(text):
            return _mask(name, text)
        if address := _USER_INFO.match(text):
            start, end = address.span(1)
            return text[:start] + _mask(name, text[start:end]) + _masked_text(text[end:], "")
    parts: list[str] = []
    at = 0
    for secret in find_secrets(text):
        parts += text[at : secret.start], _mask(secret.kind, text[secret.start : secret.end])
        at = secret.end
    return "".join([*parts, text[at:]])


def _mask(kind: str, secret: str) -> str:
    # The last characters of a short secret would reveal too much of it.
    end = f", ends in {secret[-_SHOWN_END:]}" if len(secret) >= 4 * _SHOWN_END else ""
    return f"[secret: {kind}, {len(secret)} characters{end}]"
