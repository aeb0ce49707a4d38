"""What becomes of a tool's result on its way out: cut to a bound with the rest within reach, and searched if wanted."""
