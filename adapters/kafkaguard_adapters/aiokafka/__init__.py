"""The aiokafka adapter."""
