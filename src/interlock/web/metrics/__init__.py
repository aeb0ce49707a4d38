"""`/metrics` for Prometheus: what was counted from the record, and what the parts of the hub say when asked."""
