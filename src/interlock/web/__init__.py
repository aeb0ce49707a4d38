"""The hub's faces to programs: HTTP, and the control socket that the terminal and `interlock stdio` use."""
