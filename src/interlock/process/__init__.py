"""This process and its limits: memory, garbage collection, open files, and the event loop's delays."""
