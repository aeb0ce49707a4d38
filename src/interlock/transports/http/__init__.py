<<<<<<< HEAD
"""Streamable HTTP in both eras, the server half: MCP paths are answered before ASGI, the rest goes to the app."""
=======
"""MCP over HTTP, in both eras: the client half posts to a server, the server half answers."""
>>>>>>> links
