"""Commands for authors of servers: `new`, `dev` and `export`."""
