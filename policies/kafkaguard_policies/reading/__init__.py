"""Where a policy comes from: files, environment, reload."""
