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
from .hub_secret import derived_key, hub_secret

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
MAX_BYTES: Final = 64 * 1024
MAX_SECRETS: Final = 1_000


class SecretStore:
    """The secrets of one hub's home."""

    def __init__(self, home: Path) -> None:
        self._file = home / "secrets.json"
        self._home = home
        self._opened: Encryption | None = None

    def names(self) -> list[str]:
        return sorted(self._read())

    def get(self, name: str) -> str | None:
        """The value; None where there is none, or where it was sealed with another hub's key."""
        sealed = self._read().get(name)
        return None if sealed is None else self._encryption().open(sealed, f"secret\0{name}")

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
            self._write({**kept, name: self._encryption().seal(value, f"secret\0{name}")})

    def remove(self, name: str) -> bool:
        """Delete a secret. False where there is none."""
        with locked_for_change(self._file):
            kept = self._read()
            if name not in kept:
                return False
            self._write({other: sealed for other, sealed in kept.items() if other != name})
        return True

    def _encryption(self) -> Encryption:
        if self._opened is None:
            self._opened = Encryption(derived_key(hub_secret(self._home), b"secrets"))
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
