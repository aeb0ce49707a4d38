"""`python -m interlock.cli`: how the terminal starts a hub beside itself."""

from __future__ import annotations

from interlock.cli import main

main()
