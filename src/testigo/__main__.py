"""`python -m testigo` is `testigo`."""

from __future__ import annotations

from testigo.cli import main

if __name__ == "__main__":
    main()
