"""How commands reach the hub: its control socket, the operations on it, and starting a hub that does not run."""
