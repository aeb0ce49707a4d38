"""State in the store that every node shares: registered servers, rooms, and the policy version."""
