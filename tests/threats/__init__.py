"""Every threat of `docs/threats.md` that names a face of the hub, as an attack on that face. Numbers are the rows'."""
