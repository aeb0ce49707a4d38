"""Authentication and access: principals, keys, rights, grants, tokens."""
