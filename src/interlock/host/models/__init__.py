"""Models behind one interface: OpenAI-compatible and Anthropic endpoints, and a scripted one."""
