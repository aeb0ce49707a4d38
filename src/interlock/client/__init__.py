"""The engine as a library for clients: one server, in whichever era it speaks, without having to know which."""

from interlock.client.client import Client
from interlock.client.connection import Connection
from interlock.client.handlers import Handlers
from interlock.client.listing import Listing
from interlock.client.peer import Identity, Peer
from interlock.client.tasks import Task

__all__ = ["Client", "Connection", "Handlers", "Identity", "Listing", "Peer", "Task"]
