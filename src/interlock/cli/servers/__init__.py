"""Commands that change which servers the hub has, and with which credentials: `add`, `import`, `login`, `secrets` …"""
