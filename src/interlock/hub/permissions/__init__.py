"""Permissions: what servers say they need, who decided on it, and which tools are withheld until someone has."""
