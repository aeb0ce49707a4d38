"""Requests under way: open, parked until a client answers, or waiting for their caller to be known."""
