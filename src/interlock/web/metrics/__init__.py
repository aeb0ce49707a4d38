"""`/metrics` for Prometheus: counts from the audit log, and the current state of the hub."""
