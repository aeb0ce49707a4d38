"""Serves the hub to programs: over HTTP, and over the control socket that the terminal and `interlock stdio` use."""
