"""Answers that cannot be read, and the reason that a caller must get: `%d` is the place of the request's id."""

from __future__ import annotations

from interlock.wire.limits import Limits

FEW_MEMBERS = Limits(answer_members=20_000)
HEAD = b'{"jsonrpc":"2.0","id":%d,"result":'
LONG = b'"' + b"x" * 70_000 + b'"'

UNREAD = {
    "a name twice": (HEAD + b"{}" + b',"result":{}}', "duplicate member 'result'"),
    "two ids": (b'{"jsonrpc":"2.0","id":%d,"id":900,"result":{}}', "duplicate member 'id'"),
    "two ids, the second its own": (b'{"jsonrpc":"2.0","id":900,"id":%d,"result":{}}', "duplicate member 'id'"),
    "an id behind the error": (b'{"jsonrpc":"2.0","result":{oops},"id":%d}', "not JSON: "),
    "no JSON": (HEAD + b"{oops}}", "not JSON: "),
    "no UTF-8": (HEAD + b'{}, "\xff":1}', "not JSON: "),
    "no end": (HEAD + b"{", "not JSON: "),
    "too many members": (HEAD + b'{"tools":[' + b"0," * 40_000 + b"0]}}", "more than 20000 members"),
    "large, with a name twice": (HEAD + b'{"x":' + LONG + b',"y":1,"y":2}}', "duplicate member 'y'"),
    "large and no JSON": (HEAD + b'{"x":' + LONG + b",oops}}", "not JSON: "),
    "large and no UTF-8": (HEAD + b'{"x":' + LONG + b',"y":"\xff"}}', "not JSON: "),
    "large and too deep": (HEAD + b'{"x":' + LONG + b',"y":' + b"[" * 100 + b"]" * 100 + b"}}", "nested deeper"),
}

IN_BATCHES = {
    "in a batch": (b'[1,{"jsonrpc":"2.0","id":%d,"result":{},"result":{}}]', "duplicate member 'result'"),
    "in a batch with a request": (
        b'[{"jsonrpc":"2.0","id":%d,"error":"no"},{"jsonrpc":"2.0","method":"notifications/x"}]',
        "error is not an error object",
    ),
    "in a large batch": (b"[" + LONG + b',{"jsonrpc":"2.0","id":%d,"error":"no"}]', "error is not an error object"),
}
"""The same of answers in batches, each of which names its request."""

LOG_LINES = (
    b'sent: {"jsonrpc":"2.0","id":%d,"result":{}',
    b'INFO got {"id":%d, "method": "tools/call"',
    b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"cut',
    b'{"level":30,"id":%d,"error":"none","msg":"called"}',
    b'[{"id":%d,"name":"row"}]',
    b'{"level":30,"msg":{"jsonrpc":"2.0","id":%d}',
)
"""Texts that quote an id and are no answers."""
