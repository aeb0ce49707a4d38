"""Starts our client when its turn has come.

The suite starts all clients of a run at once, and a client that gets no processor for ten seconds gives up on its
server. Two run at a time, over all runs of the suite on this machine: the locks are held until their process ends.
"""

import fcntl
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOCKS = (Path(__file__), HERE / "client.py")

lock = os.open(LOCKS[os.getpid() % len(LOCKS)], os.O_RDONLY)
fcntl.flock(lock, fcntl.LOCK_EX)
os.set_inheritable(lock, True)
os.execv(sys.executable, [sys.executable, str(HERE / "client.py"), *sys.argv[1:]])
