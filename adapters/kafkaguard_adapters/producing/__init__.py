"""What all guarded producers share: the driver of the delivery machine."""
