"""The path of a call through the gates, and the same path as a dry run."""
