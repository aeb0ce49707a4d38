"""The catalog: the offers of all servers, their exposed names, and the list for each caller. Served from memory."""
