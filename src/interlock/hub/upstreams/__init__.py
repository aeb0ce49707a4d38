"""The servers behind the hub: their states, their supervisors, and their connections."""
