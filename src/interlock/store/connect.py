"""Opens the database that a setting names: a path, a `sqlite:` URL or a `postgresql:` URL."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from .database import Database
from .documents import AnyCollection, unreadable
from .errors import StoreUnavailable
from .schema import check_schema
from .sqlite import FileId, Sqlite, file_id

_FORMATS: Final = "write a path, sqlite:///path or postgresql://user:password@host/database, percent-encoded"


def is_shared(where: str) -> bool:
    """Whether several hubs can use this database at the same time."""
    return _parts(where).scheme in ("postgresql", "postgres")


def is_missing(where: str) -> bool:
    """Whether the file of a database does not exist yet."""
    return not is_shared(where) and not sqlite_path(where).exists()


def database_file(where: str) -> FileId | None:
    """The identity of the file of a database; None for a database server."""
    return None if is_shared(where) else file_id(sqlite_path(where))


def connect(where: str, *, read_only: bool = False, file: FileId | None = None) -> Database:
    """Connect to a database; with `file`, only to this one. To read one that no hub has made is StoreUnavailable."""
    if read_only and file is None and is_missing(where):
        hint = "start the hub once with `interlock up`, or set `store` in [hub] to the database that you mean"
        raise StoreUnavailable("there is no database yet", hint, operator_text=str(sqlite_path(where)))
    if not is_shared(where):
        return Sqlite(sqlite_path(where), read_only=read_only, file=file)
    try:
        from .postgres import Postgres
    except ImportError:
        hint = "install it with `pip install 'interlock[postgres]'`"
        raise StoreUnavailable("the driver for PostgreSQL is not installed", hint) from None
    return Postgres(where, read_only=read_only)


def check_store(where: str) -> None:
    """Raises StoreError for a database with which no hub can start. Changes nothing."""
    if not is_shared(where):
        place = path = sqlite_path(where)
        while not place.exists():
            place = place.parent
        if place != path:
            if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
                hint = "set another `store` in [hub]"
                raise StoreUnavailable("the database cannot be made", hint, operator_text=str(path))
            return
        if not os.access(path, os.W_OK):
            hint = "correct its permissions, or set another `store`"
            raise StoreUnavailable("the database cannot be written", hint, operator_text=str(path))
    with closing(connect(where, read_only=True)) as database:
        check_schema(database)


def unreadable_entries(where: str, collections: Iterable[AnyCollection]) -> list[str]:
    """The stored entries that cannot be read, for operators. Reads the whole database."""
    if is_missing(where):
        return []
    with closing(connect(where, read_only=True)) as database:
        return [f"{key!r} of {collection}" for collection, key in unreadable(database, collections)]


def sqlite_path(where: str) -> Path:
    """The file that a path or a `sqlite:` URL names."""
    parts = _parts(where)
    if parts.scheme != "sqlite":
        if "://" in where:
            raise StoreUnavailable(f"{parts.scheme} databases are not supported", _FORMATS)
        return Path(where)
    if parts.netloc:
        raise StoreUnavailable("the address of a SQLite file names a host", "write sqlite:/// and the path")
    return Path(unquote(parts.path))


def _parts(where: str) -> SplitResult:
    try:
        return urlsplit(where)
    except ValueError:
        # The message leaves the address out: it may contain a password.
        raise StoreUnavailable("the address of the database is not a valid URL", _FORMATS) from None
