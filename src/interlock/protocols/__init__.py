"""What each protocol says, as data and pure rules. No I/O, no clock."""
