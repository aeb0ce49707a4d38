"""A response that is sent piece by piece, until its client has gone.

Starlette's own sends from a task group. A cancelled task of that leaves a cycle of references: its error holds the
frame that keeps the error, and with them the answer that was being sent. Here reference counts free all of them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.responses import StreamingResponse

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


class StreamedResponse(StreamingResponse):
    """Sends pieces while the client is there."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer, and stop where the client goes before its end."""
        sending = asyncio.ensure_future(self.stream_response(send))
        leaving = asyncio.ensure_future(self.listen_for_disconnect(receive))
        try:
            try:
                await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                sending.cancel()
                leaving.cancel()
                await asyncio.wait({sending, leaving})
            if not sending.cancelled():
                sending.result()
        finally:
            del sending, leaving  # An error that leaves here refers to this frame.
