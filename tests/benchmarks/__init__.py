"""Measurements, of pycron and beside others: ``python -m tests.benchmarks``, or ``make bench``."""
