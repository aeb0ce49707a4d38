"""A small, fast, well-behaved server: answers every request with its own params."""

import json
import sys

for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": message.get("params", {})}
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()
