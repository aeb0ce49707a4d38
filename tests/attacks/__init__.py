"""Attacks on a real hub process, or on a listening socket, with the bytes an attacker would write."""
