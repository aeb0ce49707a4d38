"""MGP as data and pure rules, one module per extension. MGP extends MCP and changes none of it."""
