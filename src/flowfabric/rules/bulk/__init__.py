"""Pure rules of bulk actions: jobs, and which executions an action applies to."""
