"""Sessions of clients, streams and principals of the stateless era, in one registry."""
