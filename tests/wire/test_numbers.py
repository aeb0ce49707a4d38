"""Numbers that are JSON and that no reader can hold are found in texts of any size, and nothing else is."""

from __future__ import annotations

import pytest

from interlock.wire.numbers import READ, SMALL, has_unreadable_numbers

FILLERS = (0, SMALL, READ)


@pytest.mark.parametrize("filler", FILLERS)
@pytest.mark.parametrize("number", [b"1e999", b"-1E+0400", b"9" * 5000, b"9" * 250 + b"e99", b"18e307"])
def test_a_number_beyond_every_reader_is_found(number: bytes, filler: int) -> None:
    assert has_unreadable_numbers(b'{"a\\"":"%b","b":[%b]}' % (b"x" * filler, number))


@pytest.mark.parametrize("filler", FILLERS)
@pytest.mark.parametrize(
    "value", [b'"1e999"', b'"\\"1e999"', b'"' + b"9" * 5000 + b'"', b"1e-999", b"1.7976931348623157e+308", b"true,1e99"]
)
def test_everything_else_is_readable(value: bytes, filler: int) -> None:
    assert not has_unreadable_numbers(b'{"a":"%b","b":[%b]}' % (b"x" * filler, value))
