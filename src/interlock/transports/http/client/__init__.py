"""The client half of HTTP: links to servers, their connections, and documents that the hub fetches."""
