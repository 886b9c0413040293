"""What the benchmarks compute."""
