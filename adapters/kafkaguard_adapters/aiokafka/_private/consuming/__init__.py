"""What guarding reaches inside aiokafka's consumer."""
