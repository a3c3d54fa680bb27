"""Advice about a policy: preview, explain, stacking."""
