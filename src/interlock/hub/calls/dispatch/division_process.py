"""The process that divides results: reads texts and a bound, one line of JSON each, and writes where to divide."""

from __future__ import annotations

import sys

import msgspec

from interlock.discovery.tokens import TokenCounter
from interlock.hub.calls.dispatch.result_division import divide


def main() -> None:
    """Divide every line of standard input."""
    count = TokenCounter()
    read = msgspec.json.Decoder(tuple[int, list[str], bool])
    for line in sys.stdin.buffer:
        most, texts, whole_last = read.decode(line)
        division = divide(texts, most, count, whole_last=whole_last)
        sys.stdout.buffer.write(msgspec.json.encode(division) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
