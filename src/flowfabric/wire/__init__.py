"""The wire format between servers and clients: values, errors and the list of operations."""
