"""``python -m crond_py``: the program ``pycron``, where it is not on the PATH."""

from __future__ import annotations

from crond_py.cli import main

if __name__ == "__main__":
    main()
