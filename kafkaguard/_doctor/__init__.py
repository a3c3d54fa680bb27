"""What is wrong with a cluster for one client and policy. No I/O."""
