"""What becomes of a call that passed every gate: it is sent to its server, and the answer comes back."""
