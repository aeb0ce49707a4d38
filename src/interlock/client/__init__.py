"""The library for clients: a connection to one server, in either era of MCP."""

from interlock.client.client import Client
from interlock.client.connection import Connection
from interlock.client.handlers import Handlers
from interlock.client.listing import Listing
from interlock.client.peer import Identity, Peer
from interlock.client.tasks import Task

__all__ = ["Client", "Connection", "Handlers", "Identity", "Listing", "Peer", "Task"]
