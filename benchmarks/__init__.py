"""Measurements, one command each: ``python -m benchmarks.<name>``; results go to docs/benchmarks."""
