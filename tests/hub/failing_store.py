"""A database that refuses to store the documents of one collection, or the entries of the audit log."""

from __future__ import annotations

from interlock.store import Store

CHANGES = ("INSERT", "UPDATE")
FAILS = "BEGIN SELECT abs(-9223372036854775807 - 1); END"


async def fail_to_store(store: Store, collection: str) -> None:
    """Refuse every change of a collection from now on."""
    for change in CHANGES:
        when = f"BEFORE {change} ON documents WHEN NEW.collection = '{collection}'"
        await _execute(store, f"CREATE TRIGGER full_{change} {when} {FAILS}")


async def store_again(store: Store) -> None:
    """Store everything again."""
    for change in CHANGES:
        await _execute(store, f"DROP TRIGGER full_{change}")


async def fail_to_record(store: Store) -> None:
    """Refuse every entry of the audit log from now on."""
    await _execute(store, f"CREATE TRIGGER full_log BEFORE INSERT ON records {FAILS}")


async def record_again(store: Store) -> None:
    """Take entries of the audit log again."""
    await _execute(store, "DROP TRIGGER full_log")


async def _execute(store: Store, statement: str) -> None:
    await store.commit(lambda database: database.execute(statement))
