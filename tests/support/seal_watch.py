"""Writes down each time that Testigo opens a sealed file of a finished corpus, in this process and those it starts."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any


def watch(log: Path) -> None:
    """From now on, and for the life of this process: hooks cannot be taken out."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in ("open", "shutil.copyfile") or not isinstance(arguments[0], (str, os.PathLike)):
            return
        path = os.fspath(arguments[0])
        if "/sealed/" not in path or "/corpus/." in path:  # a corpus that is being written is no sealed one yet
            return
        frame, callers = sys._getframe(), []
        while frame is not None:
            if "/testigo/" in frame.f_code.co_filename:
                callers.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}")
            frame = frame.f_back  # type: ignore[assignment]
        if callers:
            with log.open("a") as file:
                file.write(" < ".join(callers) + "\n")

    sys.addaudithook(hook)


def watch_workers(folder: Path, log: Path) -> None:
    """Every Python process that is started from now on watches as well."""
    folder.mkdir(parents=True, exist_ok=True)
    here = str(Path(__file__).parent)
    lines = ["import sys", "from pathlib import Path", f"sys.path.insert(0, {here!r})", "import seal_watch"]
    lines += [f"sys.path.remove({here!r})", f"seal_watch.watch(Path({str(log)!r}))"]
    (folder / "sitecustomize.py").write_text("\n".join(lines) + "\n")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))
