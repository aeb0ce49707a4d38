"""Sends a call that passed every gate to its server, and prepares the result for the client."""
