"""The right tools for an agent within a budget of tokens: index, ranking, counting, session arithmetic; all pure."""
