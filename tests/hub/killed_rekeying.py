"""Makes a new key for a home, and kills itself at the step whose number it is given."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interlock.config import secret_store
from interlock.config.settings import Config
from interlock.hub.admin.rekeying import rotate
from interlock.hub.auth.principals import local_person
from interlock.store.sqlite import Sqlite
from interlock.wire.encryption import Encryption

left = int(sys.argv[2])
sealing = False


def step() -> None:
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def counted(owner: Any, name: str) -> None:
    """Count a step before each call of a function; from the first value on that is sealed, also after each commit."""
    whole: Callable[..., Any] = getattr(owner, name)

    def stepping(*given: Any, **named: Any) -> Any:
        global sealing
        sealing = sealing or name == "seal"
        if sealing or name != "commit":
            step()
        result = whole(*given, **named)
        if sealing and name == "commit":
            step()
        return result

    setattr(owner, name, stepping)


counted(secret_store, "write_atomically")
counted(Encryption, "seal")
counted(Sqlite, "commit")
counted(Path, "replace")
asyncio.run(rotate(Config(), Path(sys.argv[1]), local_person("tester")))
