"""The version, in one place for the code and the build."""

__version__ = "0.1.0"
