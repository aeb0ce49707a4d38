"""The checks a call passes, one file each."""
