"""Secrets that the operator gave to the hub (`interlock secrets`): one file of mode 0600, each value encrypted.

A value is bound to its name, so values cannot be exchanged in the file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

from interlock.wire.encryption import Encryption

from .files import locked_for_change, write_atomically
from .hub_secret import SECRETS, BadHubSecret, derived_key, hub_secret
from .next_secret import has_next, next_secret

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
MAX_BYTES: Final = 64 * 1024
MAX_SECRETS: Final = 1_000


class SecretStore:
    """The secrets of one hub's home."""

    def __init__(self, home: Path) -> None:
        self._file = home / SECRETS
        self._home = home
        self._opened: Encryption | None = None

    def names(self) -> list[str]:
        return sorted(self._read())

    def get(self, name: str) -> str | None:
        """The value; None where there is none. Raises BadHubSecret for one that another key sealed."""
        sealed = self._read().get(name)
        if sealed is None:
            return None
        value = self._open(name, sealed)
        if value is None:
            hint = f"store it again with `interlock secrets rotate {name}`, or put the old key back"
            raise BadHubSecret("another key sealed it, or it was altered", hint)
        return value

    def unopened(self) -> list[str]:
        """The names of secrets that another key sealed. Raises BadHubSecret."""
        return sorted(name for name, sealed in self._read().items() if self._open(name, sealed) is None)

    def opens_with(self, secret: bytes) -> bool:
        """Whether a key opens any value."""
        encryption = _encryption(secret)
        return any(encryption.open(sealed, _bound_to(name)) is not None for name, sealed in self._read().items())

    def reseal(self, old: bytes, new: bytes) -> int:
        """Seal every value of the old key with the new one. Returns how many there were."""
        before, after = _encryption(old), _encryption(new)
        with locked_for_change(self._file):
            kept = self._read()
            opened = {name: before.open(sealed, _bound_to(name)) for name, sealed in kept.items()}
            sealed = {name: after.seal(value, _bound_to(name)) for name, value in opened.items() if value is not None}
            if sealed:
                self._write({**kept, **sealed})
        self._opened = None
        return len(sealed)

    def put(self, name: str, value: str) -> None:
        """Store a value, in place of the one before."""
        if not NAME.fullmatch(name):
            raise ValueError("a name has 1 to 100 letters, digits, `.`, `_` and `-`")
        if not value or len(value.encode()) > MAX_BYTES:
            raise ValueError(f"a secret has 1 to {MAX_BYTES} bytes")
        with locked_for_change(self._file):
            kept = self._read()
            if len(kept) >= MAX_SECRETS and name not in kept:
                raise ValueError(f"there are {MAX_SECRETS} secrets already")
            self._write({**kept, name: self._encryption().seal(value, _bound_to(name))})

    def remove(self, name: str) -> bool:
        """Delete a secret. False where there is none."""
        with locked_for_change(self._file):
            kept = self._read()
            if name not in kept:
                return False
            self._write({other: sealed for other, sealed in kept.items() if other != name})
        return True

    def _open(self, name: str, sealed: str) -> str | None:
        value = self._encryption().open(sealed, _bound_to(name))
        if value is None and has_next(self._home) and (secret := next_secret(self._home)) is not None:
            # `interlock secrets rekey` ended before the new key was in its place.
            value = _encryption(secret).open(sealed, _bound_to(name))
        return value

    def _encryption(self) -> Encryption:
        if self._opened is None:
            self._opened = _encryption(hub_secret(self._home))
        return self._opened

    def _read(self) -> dict[str, str]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, str])
        except FileNotFoundError:
            return {}
        except msgspec.DecodeError:
            raise OSError(f"{self._file} is damaged") from None

    def _write(self, kept: dict[str, str]) -> None:
        write_atomically(self._file, msgspec.json.encode(dict(sorted(kept.items()))), private=True)


def _encryption(secret: bytes) -> Encryption:
    return Encryption(derived_key(secret, b"secrets"))


def _bound_to(name: str) -> str:
    return f"secret\0{name}"
