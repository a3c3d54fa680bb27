"""What people are told about a policy: preview, explain, stacking."""
