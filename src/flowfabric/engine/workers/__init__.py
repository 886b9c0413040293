"""The worker registry, schedules, steps and retention."""
