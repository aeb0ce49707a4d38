"""A connection to PostgreSQL.

The tables are in a schema of their own. A commit is on the server's disk when it returns.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Final

import psycopg
from psycopg import errors
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict

from .database import Row, Value, decoded, script_for
from .errors import Conflict, StoreBusy, StoreDamaged, StoreError, StoreFull, StoreReadOnly, StoreUnavailable

SCHEMA: Final = "interlock"
CHANNEL: Final = "interlock_changes"
_MIGRATION_LOCK: Final = 0x1_7E21_0C4B
_CONNECT_S: Final = 5
_APPLICATION: Final = "interlock"
_OPTIONS: Final = (
    f"-c search_path={SCHEMA} -c statement_timeout=60000 -c lock_timeout=5000"
    " -c idle_in_transaction_session_timeout=30000"
    # The server forgets a hub whose machine died, and the locks that it held, within half a minute.
    " -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"
)
_READ_ONLY: Final = " -c default_transaction_read_only=on"
_TYPES: Final = {"seq": "int8", "at": "int8", "version": "int8", "revision": "int8", "changed": "int8",
                 "checksum": "int8", "hash": "bytea"}  # fmt: skip


class Postgres:
    shared = True

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        self._announcing = False
        self._synchronous = read_only
        """Whether commits are known to wait for the disk. The first transaction sees to it, not the constructor: its
        owner can interrupt a transaction that hangs."""
        _check(url)
        with _store_errors():
            self._connection = psycopg.connect(
                url,
                autocommit=True,
                connect_timeout=_CONNECT_S,
                options=_OPTIONS + (_READ_ONLY if read_only else ""),
                application_name=_APPLICATION,
                keepalives_idle=10,
                keepalives_interval=5,
                keepalives_count=3,
                tcp_user_timeout=20_000,
            )
            if self._connection.info.parameter_status("server_encoding") == "SQL_ASCII":
                # Such a database stores any bytes as text, and the driver would return every text as bytes.
                self._connection.adapters.register_loader("text", _TolerantText)

    @property
    def backend_pid(self) -> int:
        """The process of the database server that serves this connection."""
        return self._connection.info.backend_pid

    def execute(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        with _store_errors():
            cursor = self._connection.execute(_with_placeholders(sql), values)
            return cursor.fetchall() if cursor.description is not None else []

    def run_script(self, sql: str) -> None:
        with _store_errors():
            self._connection.execute(script_for("postgres", sql))

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        sql = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
        with _store_errors(), self._connection.cursor() as cursor, cursor.copy(sql) as copy:
            copy.set_types([_TYPES.get(column, "text") for column in columns])
            for row in rows:
                copy.write_row(row)

    def begin(self, *, read_only: bool = False, exclusive: bool = False) -> None:
        if not self._synchronous:
            self._make_synchronous()
        self.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" if read_only else "BEGIN")
        if exclusive:
            self.execute("SELECT pg_advisory_xact_lock(?)", (_MIGRATION_LOCK,))
            self.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")

    def commit(self) -> None:
        if self._announcing:
            self._announcing = False
            self.execute(f"NOTIFY {CHANNEL}")
        self.execute("COMMIT")

    def rollback(self) -> None:
        self._announcing = False
        with suppress(StoreError):
            self.execute("ROLLBACK")

    def lock(self, name: str) -> None:
        self.execute("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", (name,))

    def hold(self, name: str, about: str) -> str | None:
        if self.execute("SELECT pg_try_advisory_lock(hashtextextended(?, 0))", (name,))[0][0]:
            self.execute("SELECT set_config('application_name', ?, false)", (f"{_APPLICATION} {about}",))
            return None
        found = self.execute(
            "SELECT activity.application_name FROM pg_locks AS held JOIN pg_stat_activity AS activity USING (pid)"
            " WHERE held.locktype = 'advisory' AND held.granted AND activity.datname = current_database()"
            " AND ((held.classid::bigint << 32) | held.objid::bigint) = hashtextextended(?, 0)",
            (name,),
        )
        holder = str(found[0][0]) if found else ""
        return holder.removeprefix(_APPLICATION).strip() or "another connection"

    def announce(self) -> None:
        self._announcing = True

    def other_connections(self) -> int:
        found = self.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE application_name LIKE ? AND datname = current_database() AND pid <> pg_backend_pid()",
            (f"{_APPLICATION}%",),
        )
        return int(found[0][0] or 0)

    def tables(self) -> set[str]:
        found = self.execute("SELECT tablename FROM pg_tables WHERE schemaname = ?", (SCHEMA,))
        return {str(name) for (name,) in found}

    def listen(self) -> None:
        self.execute(f"LISTEN {CHANNEL}")

    def wait(self, seconds: float) -> None:
        with _store_errors():
            list(self._connection.notifies(timeout=seconds, stop_after=1))

    def interrupt(self) -> None:
        # A server that hangs ignores a request to cancel. Without its socket, the statement fails at once.
        with (
            suppress(OSError, psycopg.Error),
            socket.socket(fileno=os.dup(self._connection.fileno())) as handle,
        ):
            handle.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(psycopg.Error):
            self._connection.close()

    def _make_synchronous(self) -> None:
        """An acknowledged commit must survive a crash, also where the server's default is `off`."""
        self.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
        self._synchronous = True


class _TolerantText(Loader):
    """Returns a text that is no UTF-8 as bytes."""

    def load(self, data: Buffer) -> str | bytes:
        return decoded(bytes(data))


def _check(url: str) -> None:
    """Raises StoreUnavailable for an unusable address.

    The message never quotes the address, as the driver's would: a part that cannot be parsed may be the password.
    """
    try:
        ports = str(conninfo_to_dict(url).get("port") or "").split(",")
    except psycopg.Error:
        why = "is not a valid URL"
    else:
        why = "" if all(port.isdigit() or not port for port in ports) else "has a port that is not a number"
    if why:
        hint = "write postgresql://user:password@host:port/database, each part percent-encoded"
        raise StoreUnavailable(f"the address of the database {why}", hint)


@lru_cache(maxsize=512)
def _with_placeholders(sql: str) -> str:
    return sql.replace("%", "%%").replace("?", "%s")


_CLASSES: Final[dict[str, type[StoreError]]] = {
    "53": StoreFull,
    "23": Conflict,
    "40": StoreBusy,
    "55": StoreBusy,
    "25": StoreReadOnly,
    "42": StoreReadOnly,
    "XX": StoreDamaged,
    "22": StoreError,
}


@contextmanager
def _store_errors() -> Iterator[None]:
    """Turns errors of the server into `StoreError`s by the class of their SQLSTATE, without the statement's values."""
    try:
        yield
    except errors.TooManyConnections as cause:
        raise StoreUnavailable("PostgreSQL has no connection left", "raise max_connections") from cause
    except psycopg.Error as cause:
        kind = _CLASSES.get((cause.sqlstate or "")[:2], StoreUnavailable)
        message = cause.diag.message_primary or (str(cause).splitlines() or [type(cause).__name__])[0]
        hint = "give the hub's role the right to create and write its schema" if kind is StoreReadOnly else ""
        raise kind(f"PostgreSQL failed ({cause.sqlstate or 'no answer'})", hint, operator_text=message) from cause
