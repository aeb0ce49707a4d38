"""The counting process: reads a text as JSON from each line and writes its number of tokens. It ends with its input."""

from __future__ import annotations

import json
import sys

from interlock.discovery.tokens import TokenCounter


def main() -> None:
    """Count every line of standard input."""
    count = TokenCounter()
    for line in sys.stdin.buffer:
        sys.stdout.write(f"{count(json.loads(line))}\n")


if __name__ == "__main__":
    main()
