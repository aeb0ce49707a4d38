"""Between the eras: what a client of one and a server of the other cannot say to each other directly."""
