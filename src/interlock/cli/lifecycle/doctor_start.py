"""The checks that a hub makes before it starts: configuration, the key for secrets, the store, the audit log.

They open the store, and change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.cli.lifecycle.doctor_check import DoctorCheck
from interlock.cli.terminal.show import counted

if TYPE_CHECKING:
    from interlock.config.load import LoadedConfig


def configuration_checks(loaded: LoadedConfig) -> Iterator[DoctorCheck]:
    """The problems of the configuration, and files that nobody confirmed."""
    origin = loaded.config.origin
    for problem in loaded.problems:
        if problem.server is None or problem.fatal:
            yield DoctorCheck(
                "configuration",
                "wrong" if problem.fatal else "warning",
                f"{problem.place}: {problem.message}",
                problem.hint,
            )
    if loaded.usable:
        count = len(loaded.config.servers)
        named = f"{origin.path or 'no file is in use'}, {counted(count, 'server')}"
        nothing = "no servers are configured; the demonstration server would run"
        yield DoctorCheck("configuration", "ok", nothing if loaded.config.demo else named)
    for waiting in loaded.unconfirmed:
        ids = ", ".join(server.id for server in waiting.servers) or "no servers"
        hint = "run `interlock up` here in a terminal to confirm it"
        yield DoctorCheck("configuration", "warning", f"{waiting.path} ({ids}) is not confirmed", hint)


def start_checks(home: Path, loaded: LoadedConfig) -> Iterator[DoctorCheck]:
    """Settings, the secret of the keys, and the store."""
    if not loaded.usable:
        return
    from interlock.config.hub_secret import BadHubSecret
    from interlock.hub.cannot_start import CannotStart
    from interlock.hub.foundation import COLLECTIONS, store_of
    from interlock.hub.sealing_key import check_stored
    from interlock.store import StoreDamaged, StoreError, check_store, unreadable_entries
    from interlock.web.run import check_start

    try:
        check_start(loaded.config)
    except CannotStart as cause:
        yield DoctorCheck("start", "wrong", cause.message, cause.hint)
    yield from _key(home, loaded)
    where = store_of(loaded.config, home)
    try:
        check_store(where)
        check_stored(where, loaded.config, home)
        if found := unreadable_entries(where, COLLECTIONS):
            message = f"entries cannot be read: {', '.join(found[:20])}"
            yield DoctorCheck("store", "wrong", message, StoreDamaged.hint)
    except StoreError as cause:
        yield DoctorCheck("store", "wrong", cause.for_operators, cause.hint)
    except BadHubSecret:
        return  # `_key` reports it.


def _key(home: Path, loaded: LoadedConfig) -> Iterator[DoctorCheck]:
    """Where the key is that seals tokens and secrets, and whether it can be read."""
    from interlock.config.hub_secret import FILE, BadHubSecret, existing_secret, has_secret, hub_secret, keyring_entry
    from interlock.config.next_secret import has_next
    from interlock.config.secret_store import SecretStore

    configured = loaded.config.hub.sealing_key is not None
    if configured:
        yield DoctorCheck("key", "ok", f"the key for tokens is `sealing_key` of {loaded.config.origin.path}")
    secrets = SecretStore(home)
    if not has_secret(home) and not secrets.names():
        return
    try:
        if not has_secret(home):
            hub_secret(home)  # This raises, because the key of the secrets is lost.
        existing_secret(home)
        entry = keyring_entry(home)
        unopened = secrets.unopened() if secrets.names() else []
    except BadHubSecret as cause:
        yield DoctorCheck("key", "wrong", cause.message, cause.hint)
        return
    if has_next(home):
        hint = "start the hub, which finishes or undoes it"
        yield DoctorCheck("key", "warning", "`interlock secrets rekey` was interrupted", hint)
    place = f"in the file {home / FILE}" if entry is None else f"in {entry.backend}"
    yield DoctorCheck("key", "ok", f"the key for {'secrets' if configured else 'tokens and secrets'} is {place}")
    for name in unopened:
        hint = f"store it again with `interlock secrets rotate {name}`, or put the old key back"
        yield DoctorCheck("key", "warning", f"the secret `{name}` was sealed with another key", hint)
    if entry is not None and (home / FILE).exists():
        yield DoctorCheck("key", "warning", f"{home / FILE} is left over", "run `interlock secrets key keyring` again")


def audit_log_checks(home: Path, loaded: LoadedConfig) -> Iterator[DoctorCheck]:
    """Compares the ends of the audit log with the head files, if a hub has run here."""
    if not any(home.glob("audit*.head")):
        return
    from interlock.hub.audit.home_check import missing_ends
    from interlock.hub.foundation import store_of
    from interlock.store import StoreError

    try:
        problems = missing_ends(store_of(loaded.config, home), home)
    except StoreError as cause:
        yield DoctorCheck("audit log", "wrong", cause.for_operators, cause.hint)
        return
    for problem in problems:
        yield DoctorCheck(
            "audit log", "wrong", problem, "run `interlock audit verify`, and compare the store with a backup"
        )
    if not problems:
        yield DoctorCheck("audit log", "ok", "ends where its head file says")
