"""`python -m interlock`: the same as `interlock`."""

from __future__ import annotations

from interlock.cli import main

if __name__ == "__main__":
    main()
