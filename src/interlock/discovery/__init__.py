"""Finding the right tools for an agent within a budget of tokens: index, ranking, counting and session arithmetic, all pure."""
