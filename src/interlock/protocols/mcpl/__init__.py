"""MCPL as data and pure rules, one module per part. Dialects 0.4 and 0.5 share one grant model."""
