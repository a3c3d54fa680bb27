"""Private attributes of aiokafka's consumer."""
