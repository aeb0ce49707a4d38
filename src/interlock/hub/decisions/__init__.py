"""Decisions: questions that a rule or a person answers. One inbox, one life, one expiry rule for all of them."""
