"""Large messages of every shape that costs a reader much, as a hostile peer would send them. For `stalls.py`."""

from __future__ import annotations

import os
from collections.abc import Callable

SIZE = int(os.environ.get("PAYLOAD_BYTES", "8000000"))
"""A little under the limit of one message."""

Make = Callable[[], bytes]

VALUES: dict[str, Make] = {
    "text": lambda: b'"' + b"x" * SIZE + b'"',
    "two_byte_text": lambda: b'"' + "é".encode() * (SIZE // 2) + b'"',
    "three_byte_text": lambda: b'"' + "漢".encode() * (SIZE // 3) + b'"',
    "escaped_letters": lambda: b'"' + b"\\u0061" * (SIZE // 6) + b'"',
    "escaped_lines": lambda: b'"' + b"\\n" * (SIZE // 2) + b'"',
    "surrogate_pairs": lambda: b'"' + b"\\ud83d\\ude00" * (SIZE // 12) + b'"',
    "quotes": lambda: b'"' + b'\\"' * (SIZE // 2) + b'"',
    "source_code": lambda: b'"' + b'    return \\"a value\\" if found else None\\n' * (SIZE // 45) + b'"',
    "blanks": lambda: b" " * SIZE + b"1",
    "objects": lambda: b"[" + b"{}," * (SIZE // 3) + b"{}]",
    "items": lambda: b"[" + b"1," * (SIZE // 2) + b"1]",
    "short_texts": lambda: b"[" + b'"",' * (SIZE // 3) + b'""]',
    "names": lambda: b"{" + b",".join(b'"k%d":1' % n for n in range(SIZE // 12)) + b"}",
    "same_names": lambda: b"{" + b'"k":1,' * (SIZE // 6) + b'"k":1}',
    "deep": lambda: b"[" * (SIZE // 2) + b"]" * (SIZE // 2),
    "deep_objects": lambda: b'{"a":' * (SIZE // 6) + b"1" + b"}" * (SIZE // 6),
    "long_integer": lambda: b"1" * SIZE,
    "long_fraction": lambda: b"1." + b"1" * SIZE,
    "long_exponent": lambda: b"1e" + b"1" * SIZE,
    "long_integers": lambda: b"[" + b",".join([b"7" * 4_000] * (SIZE // 4_001)) + b"]",
    "integers_of_500": lambda: b"[" + b",".join([b"7" * 500] * 9_900) + b"]",
    "long_name": lambda: b'{"' + b"k" * SIZE + b'":1}',
    "many_texts": lambda: b"[" + b",".join([b'"' + b"x" * 800 + b'"'] * 9_900) + b"]",
    "many_names": lambda: b"{" + b",".join(b'"k%d":"%b"' % (n, b"x" * 780) for n in range(9_900)) + b"}",
    "late_bad_utf8": lambda: b'"' + b"x" * SIZE + b'\xff"',
    "late_bad_json": lambda: b'"' + b"x" * SIZE + b'"]',
    "unended": lambda: b'"' + b"x" * SIZE,
}
"""One JSON value each, or what only begins like one."""
