"""Tasks through the hub: begun by a call, owned by a principal, kept over a restart, looked up at their server."""
