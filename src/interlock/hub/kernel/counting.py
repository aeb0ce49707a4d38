"""The counting process: definitions come in, one a line; their tokens go out, one a line. Ends with its input."""

from __future__ import annotations

import sys

from interlock.discovery.tokens import TokenCounter


def main() -> None:
    """Count every line of standard input."""
    count = TokenCounter()
    for line in sys.stdin.buffer:
        sys.stdout.write(f"{count(line.decode('utf-8', 'replace').rstrip())}\n")


if __name__ == "__main__":
    main()
