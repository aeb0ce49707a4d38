"""The steps by which the schema came to be what it is: numbered SQL files that both databases read. Never edited."""
