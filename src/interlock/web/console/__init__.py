"""The console: pages in which a person sees what the hub does and answers approval requests."""
