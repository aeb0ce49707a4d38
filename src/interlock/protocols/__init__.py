"""The protocols as data and pure rules. No I/O, no clock."""
