"""MCP Live's compliance server: a blocking hook that takes secrets out of answers before anybody reads them.

Run it behind a hub with `interlock add ./examples/compliance_server.py`, and enable it with
`interlock features enable compliance compliance.redaction --agent NAME`. Rewriting an answer is denied unless the
operator also grants `contextHooks.afterInference.rewrite`.
"""

from __future__ import annotations

import re

from interlock import Server
from interlock.server import AfterInference, AfterInferenceResult

SECRET = re.compile(r"\bsk-[A-Za-z0-9]{8,}")

server = Server("compliance", "1.0.0")
server.feature("compliance.redaction", "Redact secrets from responses", uses=["contextHooks.afterInference"])


@server.after_inference("compliance.redaction", blocking=True)
def redact(turn: AfterInference) -> AfterInferenceResult | None:
    """The answer without its secrets, or None to leave it as it is."""
    text, count = SECRET.subn("[REDACTED]", turn.assistant_message)
    if not count:
        return None
    return AfterInferenceResult(None, text, {"redactions": [{"type": "api_key"}] * count})


if __name__ == "__main__":
    server.run()
