"""The only package that uses private attributes of aiokafka."""
