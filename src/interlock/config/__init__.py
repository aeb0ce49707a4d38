"""Reads the configuration into frozen values. Each problem names its file, its line and how to fix it.

Import from the modules: a command that needs one path does not load the readers of every table.
"""
