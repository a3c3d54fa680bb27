"""The kafka-python adapter."""
