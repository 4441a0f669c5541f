"""Curves of runs that Testigo did not make: one kind of log a file.

``read_log(path)`` looks at what lies there and returns a `Log`: steps in the words of `Curve`, where they came from,
and which columns no rule looks at.
"""

from __future__ import annotations

from testigo.watch.logs.log import Log
from testigo.watch.logs.reading import read_log

__all__ = ["Log", "read_log"]
