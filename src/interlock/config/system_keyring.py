"""The system's keyring, through backends that are named here.

`keyring` would also accept a backend from the environment or its own configuration file, and some of those keep
nothing or plain text. The hub asks for none of them.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Final, Protocol, TypeVar, cast

BACKENDS: Final = {
    "Secret Service": ("keyring.backends.SecretService", "Keyring"),
    "KWallet": ("keyring.backends.kwallet", "DBusKeyring"),
    "macOS Keychain": ("keyring.backends.macOS", "Keyring"),
    "Windows Credential Locker": ("keyring.backends.Windows", "WinVaultKeyring"),
}
SERVICE: Final = "interlock"
ANSWER_WITHIN_S: Final = 60.0
"""A locked keyring asks its user to unlock it. Without a screen nobody answers."""
T = TypeVar("T")


class KeyringFailed(Exception):
    """The keyring cannot be used."""


class _Backend(Protocol):
    """The part of `keyring.backend.KeyringBackend` that is used."""

    viable: bool

    def get_password(self, service: str, username: str) -> str | None: ...
    def set_password(self, service: str, username: str, password: str) -> None: ...
    def delete_password(self, service: str, username: str) -> None: ...


def available_backend() -> str:
    """The name of this system's keyring. Raises KeyringFailed where there is none."""
    for name in BACKENDS:
        if _within_time(lambda name=name: _class(name) is not None):  # type: ignore[misc]
            return name
    raise KeyringFailed(f"no keyring of this system can be used ({', '.join(BACKENDS)})")


def read_entry(backend: str, entry: str) -> str | None:
    """The text of an entry; None where there is none. Raises KeyringFailed."""
    return _within_time(lambda: _backend(backend).get_password(SERVICE, entry))


def write_entry(backend: str, entry: str, text: str) -> None:
    """Store an entry, and check that the keyring returns it. Raises KeyringFailed."""
    _within_time(lambda: _backend(backend).set_password(SERVICE, entry, text))
    if read_entry(backend, entry) != text:
        raise KeyringFailed(f"{backend} does not return what it was given")


def delete_entry(backend: str, entry: str) -> None:
    """Raises KeyringFailed."""
    _within_time(lambda: _backend(backend).delete_password(SERVICE, entry))


def _backend(name: str) -> _Backend:
    found = _class(name)
    if found is None:
        raise KeyringFailed(f"{name} is not available here")
    return found()


def _class(name: str) -> Callable[[], _Backend] | None:
    """The class of a named backend; None where it is not named here, not installed, or of another system."""
    module, member = BACKENDS.get(name, ("", ""))
    if not module:
        return None
    try:
        found = getattr(importlib.import_module(module), member)
    except ImportError:
        return None
    return cast(Callable[[], _Backend], found) if found.viable else None


def _within_time(ask: Callable[[], T]) -> T:
    """Ask the keyring in a thread of its own, because it may wait for a person who is not there."""
    answers: list[T] = []
    failures: list[Exception] = []

    def run() -> None:
        try:
            answers.append(ask())
        # Each backend has exceptions of its own, and of its system's libraries.
        except Exception as cause:
            failures.append(cause)

    asking = threading.Thread(target=run, name="keyring", daemon=True)
    asking.start()
    asking.join(ANSWER_WITHIN_S)
    if failures:
        raise KeyringFailed(str(failures[0]) or type(failures[0]).__name__) from None
    if not answers:
        raise KeyringFailed(f"the keyring did not answer within {ANSWER_WITHIN_S:g} s")
    return answers[0]
