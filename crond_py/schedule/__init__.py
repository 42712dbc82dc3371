"""Schedules: when a job is due. Pure functions of an instant."""
