"""How messages travel: stdio, HTTP, and the two ends in one process. Each has a client and a server half.

The server halves hand each request to a `Service` as an `Exchange`; the client halves are each a `Link`.
"""
