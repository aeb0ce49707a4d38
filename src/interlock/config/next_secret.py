"""The hub's next secret, while the values that it seals are being sealed with it (`interlock secrets rekey`).

It lies beside the present one, in a file or in the keyring, until everything is sealed with it. So a process that ends
in between loses neither.
"""

from __future__ import annotations

import base64
import secrets
from contextlib import suppress
from pathlib import Path

import msgspec

from .files import write_atomically
from .hub_secret import (
    ENTRY,
    FILE,
    MIN_BYTES,
    BadHubSecret,
    KeyringEntry,
    entry_check,
    keyring_entry,
    read_entry_file,
    secret_of_entry,
    secret_of_file,
)
from .system_keyring import KeyringFailed, delete_entry, write_entry

NEXT = ".next"
_FILE, _ENTRY = FILE + NEXT, ENTRY + NEXT


def prepare_next(home: Path) -> bytes:
    """Make the next secret, in the same kind of place as the present one. Raises BadHubSecret."""
    discard_next(home)
    secret = secrets.token_bytes(MIN_BYTES)
    entry = keyring_entry(home)
    if entry is None:
        write_atomically(home / _FILE, secret, private=True)
        return secret
    following = KeyringEntry(entry.backend, f"hub-{secrets.token_hex(8)}", entry_check(secret))
    # The name of the entry is stored first, so that it can be deleted whenever this process ends.
    write_atomically(home / _ENTRY, msgspec.json.encode(following), private=True)
    try:
        write_entry(following.backend, following.entry, base64.b64encode(secret).decode())
    except KeyringFailed as cause:
        (home / _ENTRY).unlink()
        raise BadHubSecret(f"{entry.backend} takes no new key: {cause}", "unlock the keyring of your session") from None
    return secret


def next_secret(home: Path) -> bytes | None:
    """The next secret; None where none was made. Raises BadHubSecret."""
    if (home / _FILE).exists():
        return secret_of_file(home / _FILE)
    entry = read_entry_file(home / _ENTRY)
    return None if entry is None else secret_of_entry(entry)


def has_next(home: Path) -> bool:
    return any((home / name).exists() for name in (_FILE, _ENTRY))


def adopt_next(home: Path) -> None:
    """Put the next secret in the place of the present one. Raises BadHubSecret."""
    old = keyring_entry(home)
    for name in (FILE, ENTRY):
        if (home / (name + NEXT)).exists():
            (home / (name + NEXT)).replace(home / name)
    if old is not None:
        _forget(old)


def discard_next(home: Path) -> None:
    """Delete the next secret, which seals nothing. Raises BadHubSecret."""
    entry = read_entry_file(home / _ENTRY)
    for name in (_FILE, _ENTRY):
        (home / name).unlink(missing_ok=True)
    if entry is not None:
        _forget(entry)


def _forget(entry: KeyringEntry) -> None:
    """Delete an entry that no file names any more. One that stays does no harm but to be stale."""
    with suppress(KeyringFailed):
        delete_entry(entry.backend, entry.entry)
