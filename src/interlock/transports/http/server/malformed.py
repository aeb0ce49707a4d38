"""Counts malformed requests by key, or by address where there is no key. A sender over the limit is refused, and no
large message of it is read.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from interlock.transports.exchange import Service
from interlock.transports.http.server.http_request import HttpRequest
from interlock.wire.errors import Fault
from interlock.wire.messages import BadMessage

MAX_BAD: Final = 300
WITHIN_S: Final = 60.0
"""The period for which `MalformedRequests` counts the requests of an address without a key."""
ADDRESSES: Final = 10_000
KEY: Final = b"authorization"
NAMES: Final = frozenset(("PARSE_ERROR", "INVALID_REQUEST", "INVALID_PARAMS", "TOO_LARGE", "HEADER_MISMATCH"))


class MalformedRequests:
    """The counts of one endpoint."""

    def __init__(self, service: Service, clock: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self._clock = clock
        self._sent: OrderedDict[str, list[float]] = OrderedDict()
        """When each address sent malformed requests lately."""

    def check(self, http: HttpRequest) -> None:
        """Check the sender before a large message is read. Raises RATE_LIMITED."""
        self._service.check_rate(self._service.admit(http.head.path, http.head.headers))
        if KEY not in http.head.headers:
            sent = self._lately(http.address)
            if len(sent) >= MAX_BAD:
                raise self._too_many(sent)

    def counted(self, http: HttpRequest, fault: Fault) -> Fault:
        """Count a refused request if it was malformed. Returns the fault to answer with."""
        if not isinstance(fault, BadMessage) and fault.name not in NAMES:
            return fault
        try:
            self._service.count_malformed(self._service.admit(http.head.path, http.head.headers))
        except Fault as refused:
            return refused if refused.name == "RATE_LIMITED" else fault
        if KEY in http.head.headers:
            return fault
        sent = self._lately(http.address)
        if len(sent) >= MAX_BAD:
            return self._too_many(sent)
        sent.append(self._clock())
        return fault

    def _lately(self, address: str) -> list[float]:
        now = self._clock()
        sent = [at for at in self._sent.pop(address, ()) if at > now - WITHIN_S]
        self._sent[address] = sent
        if len(self._sent) > ADDRESSES:
            self._sent.popitem(last=False)
        return sent

    def _too_many(self, sent: list[float]) -> Fault:
        wait_ms = max(1, int((sent[0] + WITHIN_S - self._clock()) * 1000) + 1)
        data = {"limit": MAX_BAD, "window_secs": int(WITHIN_S)}
        message = "this address sent too many malformed requests"
        return Fault("RATE_LIMITED", message, retry_after_ms=wait_ms, data=data)
