"""Starts a hub that outlives its starter: `python -m interlock.cli.control.detached COMMAND…`.

Some clients end every descendant of the programs that they started. This process starts the hub and exits once the
starter closes its end of the pipe, so that the hub has no ancestor among them. A hub that exits before that gives this
process its exit code.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def main() -> None:
    hub = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
    signal.signal(signal.SIGTERM, lambda *_: hub.terminate())
    threading.Thread(target=_leave_when_released, daemon=True).start()
    code = hub.wait()
    sys.exit(code if code >= 0 else 128 - code)


def _leave_when_released() -> None:
    while os.read(0, 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
