"""What the record hears of beside calls, and who hears of the record: audit servers, and clients that may."""
