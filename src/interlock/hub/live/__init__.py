"""MCP Live (MCPL): events, inferences and channels that servers start by themselves, and how they reach agents."""
