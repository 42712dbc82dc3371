"""The engine: the state machine that turns due instants into accounted runs."""
