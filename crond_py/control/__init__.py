"""The control socket: how commands talk to a running daemon."""
