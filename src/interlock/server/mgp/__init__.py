"""MGP in a server: agreement with clients, health, permissions and shutdown."""
