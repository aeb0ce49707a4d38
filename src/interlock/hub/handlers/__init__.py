"""Handlers for the methods of clients, one file for each family of methods."""
