"""Gives up the capabilities of this process and of everything it starts: a hub may run as root."""

from __future__ import annotations

import ctypes
from typing import Final

_DROP_BOUND: Final = 24
_LAST: Final = 63
_VERSION_3: Final = 0x20080522


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def drop_all() -> None:
    """Drop all capabilities and the bounding set, so that not even a program of root gains one. Raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    for capability in range(_LAST + 1):
        library.prctl(_DROP_BOUND, capability, 0, 0, 0)  # Fails in a process without the capability to drop it.
    if library.capset(ctypes.byref(_Header(_VERSION_3, 0)), ctypes.byref((_Sets * 2)())) != 0:
        raise OSError(ctypes.get_errno(), "cannot give up capabilities")
