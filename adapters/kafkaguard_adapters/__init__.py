"""Adapters: one package for each client, and Spark."""
