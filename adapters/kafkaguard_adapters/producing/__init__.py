"""What the guarded producers of all clients share: the driver of the delivery machine."""
