"""What whoever runs the hub can do to it, desk by desk: the control socket and the admin API are two ways in.

Every method takes the principal that asks and its params; what it changes is recorded with who asked for it.
"""
