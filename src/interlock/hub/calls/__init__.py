"""A call and what is decided about it: the call itself, its plan, verdicts, rates and timeouts."""
