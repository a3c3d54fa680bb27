"""The guard's own connections: settings, TLS, SASL."""
