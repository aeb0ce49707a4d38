"""A client and a service in one process, without sockets. Payloads are the same bytes as on a socket."""
