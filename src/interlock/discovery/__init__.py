"""Finds tools for an agent within a token budget: index, ranking, token counts and session budgets. All pure."""
