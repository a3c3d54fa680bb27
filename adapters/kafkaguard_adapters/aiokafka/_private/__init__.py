"""The only place that looks or reaches inside aiokafka."""
