"""What goes over HTTP between a server and those who call it: values, errors, and which operations there are."""
