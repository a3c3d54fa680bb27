"""Connections of our own: settings, TLS, SASL."""
