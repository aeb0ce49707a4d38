"""The ids of unreadable answers are found, and a log line has none."""

from __future__ import annotations

import pytest

from interlock.wire.unread_ids import ids_in
from processor_work import work_of
from unread_answers import LOG_LINES, UNREAD

PADDING = b'"' + b"x" * 3000 + b'"'


@pytest.mark.parametrize("text", [message for message, _ in UNREAD.values()], ids=UNREAD.keys())
def test_an_unreadable_answer_names_its_request(text: bytes) -> None:
    assert 7 in ids_in(text % 7)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (b'{"jsonrpc":"2.0","id":1,"id":2,"result":{}}', {1, 2}),
        (b'{"jsonrpc":"2.0","result":{"id":9},"id":1}', {1}),
        (b'{"jsonrpc":"2.0","result":%b,"id":1,"id":2}' % PADDING, {2}),
        (b'\xef\xbb\xbf \t{ "id" : 3 , "error" : {"code"', {3}),
        (b'{"jsonrpc":"2.0","id":"3","id":-3,"id":3.5,"result":{}', set()),
        (b'{"result":"\\"id\\":5","x":"id","y":{"id":6},"id":7', {7}),
        (b'{"jsonrpc":"2.0","id":5.0,"result":{}}', {5}),
    ],
)
def test_the_ids_are_those_of_the_answer_itself(text: bytes, ids: set[int]) -> None:
    assert ids_in(text) == ids


@pytest.mark.parametrize("line", LOG_LINES)
def test_a_log_line_names_no_request(line: bytes) -> None:
    assert ids_in(line % 7, 7) == set()


def test_an_id_that_was_read_counts_wherever_it_stands() -> None:
    text = b'{"jsonrpc":"2.0","result":%b,"id":4,oops' % PADDING
    assert ids_in(text) == set()
    assert ids_in(text, 4) == {4}


def test_quotes_in_a_string_without_an_end_cost_little() -> None:
    text = b'{"jsonrpc":"2.0","result":"' + b'\\"' * 1000
    assert work_of(lambda: ids_in(text)) < 25_000, "so many turns of an empty loop take half a millisecond"
