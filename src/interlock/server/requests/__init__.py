"""A request while a server answers it: its session, its params, and the context of the author's function."""
