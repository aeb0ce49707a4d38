"""MCP Live (MCPL): servers that speak by themselves, and clients that are hosts. Files of one subject share a word.

- `connection*`: the connections to servers that speak MCPL.
- `server_*`: the messages of servers, the refused ones, their texts, and the state that they leave with conversations.
- `feature*`: the feature sets that people enabled, what servers are told of them, and the gates of tools in one.
- `scope_*`: the scopes in which a tool of a feature set may be called (0.4).
- `hook*`: servers around an inference.
- `channel*`: channels that servers registered, and requests to them.
- `client_*`: clients that are hosts themselves: their offers, streams, inferences, channels and rollbacks.
- `events/`: events of servers and webhooks, from intake to delivery. It imports from this package, never the reverse.
"""
