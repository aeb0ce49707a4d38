"""Builds the parts of a hub in their order. `hub/app.py` is the composition root."""
