"""Finds tools within a token budget, and decides which tools a caller's list shows."""
