"""Access tokens as credentials (OAuth 2.1 resource server): the issuer's keys, the tokens, what clients are told."""
