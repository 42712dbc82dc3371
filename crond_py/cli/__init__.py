"""The command line: the only place where typer and rich live."""
