"""Runs servers contained: no network but named hosts, no files but named folders, bounded memory, processes and time.

`plan.py` computes what a server may reach, and `backends.py` chooses a backend that can enforce it on this kernel. A
separate process, the launcher, applies the limits and starts the server, so that the hub's process answers no untrusted
system call. If a limit cannot be enforced, the server is not started.
"""
