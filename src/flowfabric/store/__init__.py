"""Where rows live. A store knows plans and tables, never the domain."""
