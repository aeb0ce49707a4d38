"""JSON of peers: every fault that it can have becomes the error that the reader names, or its other value."""

from __future__ import annotations

import msgspec
import pytest

from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json, decode_json_or


class Named(msgspec.Struct):
    name: str


BAD = {
    "no JSON": b'{"name":',
    "another shape": b'{"name":1}',
    "no UTF-8": b'{"name":"\xff"}',
    "too deep": b'{"name":"x","more":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_json_that_cannot_be_read_is_a_fault_with_the_name_and_the_words_of_its_reader(data: bytes) -> None:
    with pytest.raises(Fault, match=r"^the answer: ") as raised:
        decode_json(data, Named, "UPSTREAM_ERROR", "the answer")
    assert raised.value.name == "UPSTREAM_ERROR"
    assert decode_json_or(data, Named, None) is None


def test_json_of_the_shape_is_its_value() -> None:
    assert decode_json(b'{"name":"x"}', Named, "UPSTREAM_ERROR", "the answer") == Named("x")
    assert decode_json_or(msgspec.Raw(b'{"name":"x"}'), Named, None) == Named("x")
