"""Inside aiokafka's producer: what its public interface does not tell or allow."""
