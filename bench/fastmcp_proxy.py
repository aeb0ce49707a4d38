"""FastMCP's own proxy, run with the Python of its environment: `fastmcp_proxy.py PORT URL-or-command…`."""

from __future__ import annotations

import sys

from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy

port, first, *rest = sys.argv[1:]
target = first if first.startswith("http") else StdioTransport(first, rest)
create_proxy(target, name="bench").run(
    transport="http", host="127.0.0.1", port=int(port), show_banner=False, log_level="ERROR"
)
