"""The admin API: what `interlock keys`, `grants`, `approvals`, `audit` and `status` do, over HTTP with a key."""
