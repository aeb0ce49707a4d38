"""Who may reach what: the grants, what they mean for a principal and a target, and the methods that change them."""
