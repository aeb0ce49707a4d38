"""Attacks through real interfaces: what a hostile peer writes, and what reaches the other side."""
