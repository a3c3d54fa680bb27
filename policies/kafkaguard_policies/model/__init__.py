"""Models of a policy: settings, problems, schema."""
