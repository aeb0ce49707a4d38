"""Runs servers contained: no network but named hosts, no files but named folders, bounded memory, processes and time.

`plan.py` works out what a server may reach, `backends.py` says which backend can enforce that on this kernel. A process
of its own, the launcher, applies the limits and starts the server, so that no untrusted system call is answered inside
the hub. A limit that cannot be enforced refuses the start.
"""
