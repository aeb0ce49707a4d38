"""Clients and servers that others wrote, with a real hub between them."""
