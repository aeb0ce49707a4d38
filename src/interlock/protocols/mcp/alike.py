"""A call that is like one before it, but for its id and its arguments, is known by its bytes and not parsed again.

All that stands around those two is equal, byte for byte, to what was read and checked the first time, and they
themselves are read: so it means what it says, and whatever is not just like that is left to `glance`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.protocols.mcp.meta import RequestPreview, preview
from interlock.protocols.mcp.trace_meta import behind_trace
from interlock.wire.errors import Fault
from interlock.wire.messages import Request, plain_request

LONGEST_ID: Final = 18
"""Digits of an id that surely is a number of 64 bits."""

_ID: Final = b'"id":'
_ARGUMENTS: Final = b'"arguments":'
_PARAMS: Final = b'"params":'
_ZERO: Final = ord("0")
_PROBE_ID: Final = 271_828_182_845
_PROBE_ARGUMENTS: Final = b'{"3.14159":{"26535":["8979"]}}'
_decode: Final = msgspec.json.Decoder().decode


Parts = tuple[int, bytes, object, int, int]
"""An id, arguments as they came and decoded, and where those begin and end."""


class AlikeCall(msgspec.Struct, frozen=True):
    """A call in pieces: what must be equal, and between them the id and the arguments, whichever comes first."""

    start: bytes
    middle: bytes
    end: bytes
    begin: int
    rest: int
    """How long the first piece is, and the last."""
    id_first: bool
    before: int
    after: int
    """How many bytes of the params stand before the arguments, and behind them."""
    method: str
    view: RequestPreview
    untraced: bytes

    @classmethod
    def of(cls, body: bytes, request: Request, view: RequestPreview) -> AlikeCall | None:
        """The pieces of a call that was read from these bytes; None where they could not be told apart for sure.

        They are when the same pieces with another id and other arguments are read as just that.
        """
        number, given, meta = request.id, view.arguments, view.meta
        if type(number) is not int or given is None or not (meta is None or meta.may_come_again):
            return None
        ids, arguments, params = body.find(_ID + b"%d" % number), body.find(_ARGUMENTS + given), body.find(_PARAMS)
        if min(ids, arguments, params) < 0:
            return None
        ids, arguments, params = ids + len(_ID), arguments + len(_ARGUMENTS), params + len(_PARAMS)
        id_end, given_end = ids + len(b"%d" % number), arguments + len(given)
        before, after = arguments - params, params + len(request.params) - given_end
        if id_end <= params:
            pieces = body[:ids], body[id_end:arguments], body[given_end:]
        else:
            pieces = body[:arguments], body[given_end:ids], body[id_end:]
        alike = cls(
            *pieces,
            len(pieces[0]),
            len(pieces[2]),
            id_end <= params,
            before,
            after,
            request.method,
            view,
            behind_trace(view.meta_raw),
        )
        return alike if alike._is_sure() and alike.parts(body) is not None else None

    def parts(self, body: bytes) -> Parts | None:
        """Where the id and the arguments stand in these bytes, and what they are, if it is a call like this one."""
        begin, stop, middle = self.begin, len(body) - self.rest, self.middle
        if self.id_first:
            at = body.find(b",", begin, begin + LONGEST_ID + 1)
            digits = body[begin:at]
            begin = at + len(middle)
        else:
            at = body.rfind(b":", max(begin, stop - LONGEST_ID - 1), stop) + 1
            digits = body[at:stop]
            at = stop = at - len(middle)
        given = body[begin:stop]
        if (
            not body.startswith(middle, at)
            or not body.startswith(self.start)
            or not body.endswith(self.end)
            or not digits.isdigit()
            or (digits[0] == _ZERO and len(digits) > 1)
            or not given.startswith(b"{")  # among others, for blanks around it
            or not given.endswith(b"}")
        ):
            return None
        try:
            return int(digits), given, _decode(given), begin, stop
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    def read(self, body: bytes, parts: Parts) -> tuple[Request, RequestPreview]:
        """The call in these bytes, of which those are the parts."""
        id_, given, value, begin, stop = parts
        view, raw = self.view, self.view.meta_raw
        request = Request(id_, self.method, body[begin - self.before : stop + self.after])
        return request, RequestPreview(view.name, None, view.meta, raw, given, None, value, self.untraced)

    def _is_sure(self) -> bool:
        """Whether what these pieces enclose is read as the id and the arguments, and nothing else changes."""
        digits = b"%d" % _PROBE_ID
        first, second = (digits, _PROBE_ARGUMENTS) if self.id_first else (_PROBE_ARGUMENTS, digits)
        body = b"".join((self.start, first, self.middle, second, self.end))
        request = plain_request(body)
        parts = self.parts(body)
        if request is None or parts is None:
            return False
        try:
            seen = preview(request.params)
        except Fault:
            return False
        same = self.view.name == seen.name and self.view.meta_raw == seen.meta_raw and self.method == request.method
        probed = seen.arguments == _PROBE_ARGUMENTS and request.id == _PROBE_ID
        return same and probed and self.read(body, parts)[0] == request
