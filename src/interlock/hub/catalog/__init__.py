"""What the servers offer: identity, exposed names, and the lists each caller sees. Answered from memory at once."""
