"""The engine as a library for clients: one server, in whichever era it speaks, without having to know which."""
