"""Commands that list, find, call and check tools."""
