"""Measurements of single parts, each beside something that does the same: ``make bench-parts``."""
