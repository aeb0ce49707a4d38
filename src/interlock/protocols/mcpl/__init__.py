"""MCPL, one module per part: what it says as data and pure rules. Dialects 0.4 and 0.5 share one grant model."""
