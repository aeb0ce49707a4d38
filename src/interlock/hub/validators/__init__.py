"""What the hub checks of a call's arguments itself, whatever the server claims: chosen per tool, applied per call."""
