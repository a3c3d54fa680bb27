"""What the user decides: retry policies, where they come from, and presets."""
