"""Retry policies, their sources, and presets; users import ``kafkaguard.policies``."""
