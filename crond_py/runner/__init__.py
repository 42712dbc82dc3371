"""The runner: starts, watches and ends processes."""
