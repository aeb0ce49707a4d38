"""The servers behind the hub: what state each is in, who keeps it there, and which connection serves whom."""
