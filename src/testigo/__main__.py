"""`python -m testigo` is `testigo`."""

from __future__ import annotations

from testigo.beginning import testigo

if __name__ == "__main__":
    testigo()
