"""The fingerprint of a definition: the same for the same meaning, different for any other.

Order of keys and the spelling of numbers (10, 10.0, 1e1) mean nothing; everything else does.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256


def fingerprint(definition: object) -> str:
    """SHA-256 over the whole definition in canonical form, in hexadecimal."""
    digest = sha256()
    stack: list[object] = [definition]
    while stack:
        value = stack.pop()
        if type(value) is str:  # First, as most values are texts.
            digest.update(_scalar(value))
        elif isinstance(value, _Mark):
            digest.update(value)
        elif type(value) is dict or isinstance(value, Mapping):
            digest.update(b"{%d:" % len(value))
            stack.append(_Mark(b"}"))
            for key in sorted(value, key=str, reverse=True):
                stack.append(value[key])
                stack.append(str(key))
        elif isinstance(value, list | tuple):
            digest.update(b"[%d:" % len(value))
            stack.append(_Mark(b"]"))
            stack.extend(reversed(value))
        else:
            digest.update(_scalar(value))
    return digest.hexdigest()


class _Mark(bytes):
    """Marks the end of a list or mapping. No value has this type."""


def _scalar(value: object) -> bytes:
    if isinstance(value, str):
        octets = value.encode("utf-8", "surrogatepass")
        return b"s%d:" % len(octets) + octets
    if isinstance(value, bool) or value is None:
        return b"c" + repr(value).encode()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return b"n" + (hex(value) if isinstance(value, int) else repr(value)).encode("utf-8", "surrogatepass") + b";"
