"""Who asks: principals and their credentials, by which door they come in, and how much they may ask."""
