"""Reports about a cluster: lag, log directories, offsets, remote storage."""
