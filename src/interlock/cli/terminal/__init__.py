"""Input and output at a terminal: arguments, printing, and how a command fails."""
