"""Speed, measured: every scenario against the raw limit of the same machine in the same run."""
