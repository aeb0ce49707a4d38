"""`python -m interlock.cli`: the command with which the terminal starts a hub in the background."""

from __future__ import annotations

from interlock.cli import main

main()
