"""The hub's own tools: finding and calling tools that are not in the model's context, within a budget of tokens."""
