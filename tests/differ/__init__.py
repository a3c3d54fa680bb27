"""Seeded programs, played by guarded clients and, beside them, by the bare ones."""
