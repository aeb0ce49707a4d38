"""Rooms: topics that agents and people share over WebSocket, in MCPx 0.1."""
