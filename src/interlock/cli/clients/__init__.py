"""Commands that connect clients to the hub: `setup`, `connect`, `stdio`, `sessions` and `hook`."""
