"""Sessions of the handshake era, the same for every transport and every service."""
