"""Tasks: a call starts one, a principal owns it, the store keeps it over a restart, and its server runs it."""
