"""Who is asking and what they may reach: principals, keys, rights, grants, tokens."""
