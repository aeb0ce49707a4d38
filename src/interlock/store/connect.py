"""Opens the database that a setting names: a path, a `sqlite:` URL or a `postgresql:` URL."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from .database import Database
from .errors import StoreUnavailable
from .sqlite import Sqlite

_FORMATS: Final = "write a path, sqlite:///path or postgresql://user:password@host/database, percent-encoded"


def is_shared(where: str) -> bool:
    """Whether several hubs can use this database at the same time."""
    return _parts(where).scheme in ("postgresql", "postgres")


def connect(where: str, *, read_only: bool = False) -> Database:
    if not is_shared(where):
        return Sqlite(sqlite_path(where), read_only=read_only)
    try:
        from .postgres import Postgres
    except ImportError:
        hint = "install it with `pip install 'interlock[postgres]'`"
        raise StoreUnavailable("the driver for PostgreSQL is not installed", hint) from None
    return Postgres(where, read_only=read_only)


def sqlite_path(where: str) -> Path:
    """The file that a path or a `sqlite:` URL names."""
    parts = _parts(where)
    if parts.scheme != "sqlite":
        if "://" in where:
            raise StoreUnavailable(f"{parts.scheme} databases are not supported", _FORMATS)
        return Path(where)
    if parts.netloc:
        raise StoreUnavailable(f"{where!r} names a host", "write sqlite:/// and the path")
    return Path(unquote(parts.path))


def _parts(where: str) -> SplitResult:
    try:
        return urlsplit(where)
    except ValueError:
        # The message leaves the address out: it may contain a password.
        raise StoreUnavailable("the address of the database is not a valid URL", _FORMATS) from None
