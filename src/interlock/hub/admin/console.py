"""The way into the console: its host name, and login codes that the hub's own user makes at a terminal.

Browsers share cookies between all ports of a host, so the console has a name of its own. Only this hub's user learns
it: a server on another port cannot make a browser send it the cookie.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Final

import msgspec

from interlock.hub.admin.operation import ControlFlag, Secret
from interlock.hub.app import HubApp
from interlock.hub.approvals.decision import LETTERS
from interlock.hub.auth.principals import Principal
from interlock.wire.errors import Fault

CODE_S: Final = 60
"""How long a code is valid."""
MAX_CODES: Final = 8
"""Valid codes at once. A further one replaces the oldest."""
_CODE_CHARS: Final = 12


class MadeCode(msgspec.Struct, frozen=True):
    """A code that was not redeemed yet."""

    until: float
    proven: bool


class LoginCodes:
    """Codes that are valid for a minute and once. Only their hashes are kept."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._codes: dict[bytes, MadeCode] = {}

    def make(self, *, proven: bool = False) -> str:
        """A new code, in groups of four characters. `proven`: the person typed the passphrase for it."""
        code = "".join(secrets.choice(LETTERS) for _ in range(_CODE_CHARS))
        while len(self._codes) >= MAX_CODES:
            del self._codes[next(iter(self._codes))]
        self._codes[_digest(code)] = MadeCode(self._clock() + CODE_S, proven)
        return "-".join(code[at : at + 4] for at in range(0, _CODE_CHARS, 4))

    def redeem(self, typed: str) -> MadeCode | None:
        """The code that a person typed, if it is valid. It ends with this."""
        made = self._codes.pop(_digest("".join(char for char in typed.lower() if char in LETTERS)), None)
        return made if made is not None and self._clock() < made.until else None


class ConsoleOperations:
    """The operations on the console of one hub."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app
        self.codes = LoginCodes(time.monotonic)
        self.address = hub_app.login_parts.console
        self._closing: set[Callable[[], None]] = set()

    async def code(self, by: Principal, params: NewCode, trace: str) -> LoginCode:
        """Make a login code. It is as strong as an approval, so it needs a person at a terminal."""
        if not params.terminal:
            message = "a login code needs a person at a terminal"
            raise Fault("ACCESS_DENIED", message, hint="run `interlock console` in a terminal")
        await self._hub_app.passphrase.demand(by, params.passphrase)
        code = self.codes.make(proven=self._hub_app.passphrase.needed)
        return LoginCode(f"{self.address.origin}/console", code, CODE_S)

    def on_close(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when the hub stops. Returns the function that ends this."""
        self._closing.add(callback)
        return lambda: self._closing.discard(callback)

    def close(self) -> None:
        """End the event streams of open pages, so that the hub can stop."""
        for callback in tuple(self._closing):
            callback()


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode()).digest()


class NewCode(msgspec.Struct):
    """A request for a code."""

    passphrase: Secret = ""
    """Where the hub has one."""
    terminal: ControlFlag = False


class LoginCode(msgspec.Struct):
    """A login code, shown only now."""

    url: str
    code: str
    valid_s: int
