"""Every route, by what it is about."""
