"""Columns for filtering: one small number per slot, so that filtering many tools costs a few array comparisons."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Flags = NDArray[np.bool_]

_EMPTY = -1


class Columns:
    """Risk, status and server by slot. An empty slot passes no filter."""

    def __init__(self) -> None:
        self._risk = array("i")
        self._status = array("i")
        self._server = array("i")
        self._numbers: dict[str, int] = {}

    def put(self, slot: int, risk: int, status: str, server: str) -> None:
        while len(self._risk) <= slot:
            for column in (self._risk, self._status, self._server):
                column.append(_EMPTY)
        self._risk[slot] = risk
        self._status[slot] = self._numbers.setdefault(status, len(self._numbers))
        self._server[slot] = self._numbers.setdefault(server, len(self._numbers))

    def remove(self, slot: int) -> None:
        self._risk[slot] = _EMPTY

    def passing(self, highest_risk: int | None, status: str | None, server: str | None) -> Flags:
        """One flag per slot: whether it has a tool that passes the filter."""
        import numpy as np

        risk = np.frombuffer(self._risk, np.int32) if self._risk else np.zeros(0, np.int32)
        flags: Flags = risk != _EMPTY
        if highest_risk is not None:
            flags &= risk <= highest_risk
        for column, wanted in ((self._status, status), (self._server, server)):
            if wanted is not None and column:
                flags &= np.frombuffer(column, np.int32) == self._numbers.get(wanted, _EMPTY - 1)
        return flags
