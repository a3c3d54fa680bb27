"""What guarded consumers of all clients share: the shell, and what drives it."""
