"""Newline-delimited messages over a pair of byte streams: a server we started, our own standard streams, a socket."""
