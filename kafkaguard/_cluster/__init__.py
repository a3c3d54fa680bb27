"""What the cluster says: lag, log directories, offsets, remote storage."""
