"""A call inside of the hub: what it is, what was planned for it, what a gate may say, and how long it may take."""
