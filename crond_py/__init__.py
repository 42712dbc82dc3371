"""pycron, the accountable cron."""

__version__ = "0.1.0"
