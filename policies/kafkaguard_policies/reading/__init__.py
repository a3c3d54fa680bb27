"""Sources of policies: files, environment, reload."""
