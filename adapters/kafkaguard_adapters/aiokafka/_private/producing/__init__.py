"""Private attributes of aiokafka's producer."""
