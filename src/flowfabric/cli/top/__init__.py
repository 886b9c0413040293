"""`flowfabric top`: a live view of a deployment."""
