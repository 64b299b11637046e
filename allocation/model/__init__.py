"""What the scheduler reads of a cluster to allocate devices. Pure."""
