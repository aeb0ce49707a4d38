"""Dates of HTTP headers, in each form that RFC 9110 has."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.transports.http.dates import format_date, parse_date


@given(st.integers(0, 4_102_444_799))
def test_a_time_is_written_as_mail_writes_it_and_read_again(seconds: int) -> None:
    date = format_date(seconds)
    assert date == formatdate(seconds, usegmt=True).encode()
    assert parse_date(date) == seconds


@pytest.mark.parametrize(
    "date", [b"Sun, 06 Nov 1994 08:49:37 GMT", b"Sunday, 06-Nov-94 08:49:37 GMT", b"Sun Nov  6 08:49:37 1994"]
)
def test_every_form_of_the_specification_is_read(date: bytes) -> None:
    assert parse_date(date) == 784_111_777


def test_a_leap_second_is_the_last_second_of_its_minute() -> None:
    assert parse_date(b"Sat, 31 Dec 2016 23:59:60 GMT") == parse_date(b"Sat, 31 Dec 2016 23:59:59 GMT")


@pytest.mark.parametrize(
    "date",
    [
        b"",
        b"soon",
        b"Sun, 06 Nov 1994 08:49:37",
        b"Sun, 06 Nov 1994 08:49:37 GMT and more",
        b"Sun, 31 Feb 2026 08:49:37 GMT",
        b"Sun, 06 Foo 1994 08:49:37 GMT",
        b"Sun, 06 Nov 0000 08:49:37 GMT",
        b"Sun, 06 Nov 1994 28:49:37 GMT",
        b"\xff\xfe",
    ],
)
def test_anything_else_is_no_date(date: bytes) -> None:
    assert parse_date(date) is None


@given(st.binary(max_size=64))
def test_no_bytes_make_the_reader_fail(date: bytes) -> None:
    parse_date(date)
