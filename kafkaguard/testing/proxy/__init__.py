"""Faults on the wire: a proxy that answers in a broker's place."""
