"""What becomes of each record that is sent."""
