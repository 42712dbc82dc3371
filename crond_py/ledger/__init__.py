"""The ledger: where every run is kept."""
