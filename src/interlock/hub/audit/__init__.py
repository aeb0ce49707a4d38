"""The audit log: entries, the hash chain, the recorder, verification and its readers."""
