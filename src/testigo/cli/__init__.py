"""The command line: one file a command, which parses, calls and prints.

A new command is a file with one function of the command's name, and its line in `COMMANDS`. Libraries that are slow to
import are imported inside of the function, so that `testigo --help` answers at once.
"""

from __future__ import annotations

from testigo.cli.app import COMMANDS, GROUPS, app, main, run

__all__ = ["COMMANDS", "GROUPS", "app", "main", "run"]
