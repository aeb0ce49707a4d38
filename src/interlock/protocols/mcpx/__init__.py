"""MCPx 0.1, the protocol of rooms: envelopes, kinds, capabilities, proposals and routing, as data and pure rules."""
