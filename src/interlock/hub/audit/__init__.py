"""The record of what happened: who asked for what, why it was allowed or refused, and how it ended."""
