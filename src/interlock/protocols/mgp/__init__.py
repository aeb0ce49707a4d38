"""MGP, one module per extension: what it says as data and pure rules. It extends MCP and changes nothing of it."""
