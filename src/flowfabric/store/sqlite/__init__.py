"""SQLite: one writer thread with natural group commit, readers apart."""
