"""Real coding agents against a real hub, with a scripted model. See `run.py`."""
