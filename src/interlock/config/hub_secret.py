"""The hub's own secret: random bytes that only its user can read. Every other key of the hub is derived.

It is in the file `keys.secret` of the home, or in the system's keyring; the file `keys.keyring` says in which entry.
Hubs that share a store take it from their configurations. A secret that cannot be read is never replaced by a new one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import sys
from pathlib import Path
from typing import Final

import msgspec

from interlock.wire.explained import ExplainedError

from .files import locked_for_change, write_atomically
from .system_keyring import KeyringFailed, available_backend, delete_entry, read_entry, write_entry

FILE: Final = "keys.secret"
ENTRY: Final = "keys.keyring"
SECRETS: Final = "secrets.json"
"""The values of `interlock secrets`, which the secret seals."""
MIN_BYTES: Final = 32
REKEY: Final = "`interlock secrets rekey`, which asks for the old key"
RESTORE: Final = f"put your copy of {FILE} back, or run {REKEY}"
MAKE_KEY: Final = "make one with `openssl rand -base64 32`; all hubs of a store have the same"
_URL_SAFE: Final = str.maketrans("-_", "+/")


class BadHubSecret(ExplainedError):
    """The secret cannot be used."""


class LostHubSecret(BadHubSecret):
    """The secret is gone: neither its file nor the keyring has it."""


class KeyringEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The entry of the keyring that has the secret, with a check value: another secret is noticed at once."""

    backend: str
    entry: str
    check: str


def hub_secret(home: Path) -> bytes:
    """The secret, made at first use. Raises BadHubSecret for one that is weak, lost, or that other users can read."""
    path = home / FILE
    try:
        if not has_secret(home):
            if _has_values(home / SECRETS):
                raise LostHubSecret(f"the key of {home / SECRETS} is lost: there is no {path}", RESTORE)
            return make_secret(home)
    except OSError as cause:
        raise _unusable(path, cause) from None
    return existing_secret(home)


def make_secret(home: Path) -> bytes:
    """Make a new secret, in its file. Anything that another one sealed cannot be opened with it. Raises OSError."""
    secret = secrets.token_bytes(MIN_BYTES)
    write_atomically(home / FILE, secret, private=True)
    (home / ENTRY).unlink(missing_ok=True)
    return secret


def sealing_secret(home: Path, configured: str | None) -> bytes:
    """The secret of everything in the store: that of `[hub] sealing_key`, else the home's. Raises BadHubSecret."""
    return hub_secret(home) if configured is None else configured_secret(configured)


def configured_secret(text: str) -> bytes:
    """The secret of `[hub] sealing_key`, written in base64. Raises BadHubSecret, which never quotes it."""
    written = "".join(text.split()).rstrip("=").translate(_URL_SAFE)
    try:
        secret = base64.b64decode(written + "=" * (-len(written) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise BadHubSecret("`sealing_key` is not base64", MAKE_KEY) from None
    if _is_weak(secret):
        message = f"`sealing_key` is too weak: it needs {MIN_BYTES} random bytes, and has {len(secret)} bytes"
        raise BadHubSecret(message, MAKE_KEY)
    return secret


def has_secret(home: Path) -> bool:
    return (home / FILE).exists() or (home / ENTRY).exists()


def existing_secret(home: Path) -> bytes:
    """The secret of a home that has one. Raises BadHubSecret."""
    entry = keyring_entry(home)
    return secret_of_file(home / FILE) if entry is None else secret_of_entry(entry)


def keyring_entry(home: Path) -> KeyringEntry | None:
    """The entry of the keyring; None where the secret is in its file. Raises BadHubSecret."""
    return read_entry_file(home / ENTRY)


def read_entry_file(path: Path) -> KeyringEntry | None:
    """The entry that a file names; None where there is no file. Raises BadHubSecret."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=KeyringEntry)
    except FileNotFoundError:
        return None
    except OSError as cause:
        raise _unusable(path, cause) from None
    except msgspec.DecodeError:
        raise BadHubSecret(f"{path} is damaged", "restore it from a copy: it names the entry of the keyring") from None


def move_to_keyring(home: Path) -> str:
    """Move the secret from its file to the system's keyring, whose name is returned. Raises BadHubSecret."""
    with locked_for_change(home / FILE):
        known = keyring_entry(home)
        secret = hub_secret(home)
        if known is None:
            try:
                known = KeyringEntry(available_backend(), f"hub-{secrets.token_hex(8)}", entry_check(secret))
                write_entry(known.backend, known.entry, base64.b64encode(secret).decode())
            except KeyringFailed as cause:
                hint = "install `interlock[keyring]`, unlock the keyring of your session, or keep the file"
                raise BadHubSecret(f"the key stays in its file: {cause}", hint) from None
            write_atomically(home / ENTRY, msgspec.json.encode(known), private=True)
        (home / FILE).unlink(missing_ok=True)
    return known.backend


def move_to_file(home: Path) -> None:
    """Move the secret from the keyring to its file, of mode 0600. Raises BadHubSecret."""
    with locked_for_change(home / FILE):
        secret = hub_secret(home)
        entry = keyring_entry(home)
        if entry is None:
            return
        write_atomically(home / FILE, secret, private=True)
        (home / ENTRY).unlink()
    try:
        delete_entry(entry.backend, entry.entry)
    except KeyringFailed as cause:
        hint = f"delete the entry `{entry.entry}` of `interlock` in it"
        raise BadHubSecret(f"the key is in its file, and still in {entry.backend}: {cause}", hint) from None


def secret_of_file(path: Path) -> bytes:
    """The secret in a file. Raises BadHubSecret."""
    try:
        secret, mode = path.read_bytes(), path.stat().st_mode
    except OSError as cause:
        raise _unusable(path, cause) from None
    if sys.platform != "win32" and mode & 0o077:
        raise BadHubSecret(f"other users can read or write {path}, the secret of all keys", f"run `chmod 600 {path}`")
    if _is_weak(secret):
        raise BadHubSecret(f"{path} is too weak to be a secret", "delete it, and create the keys again")
    return secret


def _has_values(path: Path) -> bool:
    try:
        return path.read_bytes().strip() not in (b"", b"{}")
    except FileNotFoundError:
        return False


def _is_weak(secret: bytes) -> bool:
    """Random bytes have many different values; a typed word or a repeated byte has few."""
    return len(secret) < MIN_BYTES or len(set(secret)) < 16 or secret.isalpha()


def secret_of_entry(entry: KeyringEntry) -> bytes:
    """The secret in an entry of the keyring. Raises BadHubSecret."""
    hint = "unlock the keyring of this user's session, and see that `interlock[keyring]` is installed"
    try:
        text = read_entry(entry.backend, entry.entry)
        secret = b"" if text is None else base64.b64decode(text, validate=True)
    except KeyringFailed as cause:
        raise BadHubSecret(f"the key of this hub is in {entry.backend}: {cause}", hint) from None
    except (binascii.Error, ValueError):
        secret = b""
    if not hmac.compare_digest(entry_check(secret).encode(), entry.check.encode()):
        message = f"{entry.backend} has no entry `{entry.entry}` with the key of this hub"
        hint = "restore the keyring, put a copy of the key's file in place of `keys.keyring`, or run " + REKEY
        raise LostHubSecret(message, hint)
    return secret


def entry_check(secret: bytes) -> str:
    """The check value in the file that names an entry."""
    return derived_key(secret, b"keyring entry").hex()


def _unusable(path: Path, cause: OSError) -> BadHubSecret:
    hint = "make room on that disk, and see that this user can read and write the folder"
    return BadHubSecret(f"{path}: {cause.strerror or cause}", hint)


def derived_key(secret: bytes, purpose: bytes) -> bytes:
    """A key for this purpose alone: it reveals neither the secret nor another key."""
    return hmac.digest(secret, b"interlock:" + purpose, hashlib.sha256)
