"""SHA256SUMS: the digest of every file of a folder, in the format that `sha256sum --check` reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from testigo.dossier.files import sha256_of

NAME = "SHA256SUMS"
SIGNATURE = f"{NAME}.sig"
_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")


def files_of(folder: Path) -> dict[str, Path]:
    """Every file below the folder by its relative name, without SHA256SUMS itself and what signs it.

    Links are listed, not followed.
    """
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name not in (NAME, SIGNATURE) and (path.is_symlink() or not path.is_dir()):
            found[name] = path
    return found


def empty_folders(folder: Path) -> list[str]:
    """Folders below the folder in which no file lies, the outermost of each: nothing that is written leaves one."""
    paths = list(folder.rglob("*"))
    full = {parent for path in paths if path.is_symlink() or not path.is_dir() for parent in path.parents}
    empty = {path for path in paths if path not in full and path.is_dir() and not path.is_symlink()}
    return sorted(f"{path.relative_to(folder).as_posix()}/" for path in empty if path.parent not in empty)


def text_of(digests: Mapping[str, str]) -> str:
    """The file's text: one line a file, in order of names."""
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))


def write_sums(folder: Path) -> None:
    """Write SHA256SUMS over everything else in the folder."""
    digests = {name: sha256_of(path) for name, path in files_of(folder).items()}
    (folder / NAME).write_text(text_of(digests), encoding="utf-8")


def check_sums(folder: Path) -> tuple[int, list[str]]:
    """How many files there are, and every one that is missing, extra, changed, or no plain file.

    A folder in which no file lies is extra too. A line of SHA256SUMS that is itself damaged is a fault too.
    """
    faults: list[str] = []
    try:
        text = (folder / NAME).read_bytes().decode("utf-8")
    except OSError:
        return len(files_of(folder)), [f"{NAME}: missing"]
    except UnicodeDecodeError:
        text = ""
        faults.append(f"{NAME}: not text")
    recorded: dict[str, str] = {}
    for number, line in enumerate(text.split("\n")[:-1], 1):
        match = _LINE.fullmatch(line)
        if match is None:
            faults.append(f"{NAME}: line {number} is not a digest and a name")
        else:
            recorded[match.group(2)] = match.group(1)
    if not faults and text != text_of(recorded):
        faults.append(f"{NAME}: was changed: it is not as it was written")
    found = files_of(folder)
    for name in sorted({*recorded, *found}):
        if name not in found:
            faults.append(f"{name}: missing, or named wrongly in {NAME}")
        elif found[name].is_symlink() or not found[name].is_file():
            faults.append(f"{name}: is a link or a special file, not a file of the dossier")
        elif name not in recorded:
            faults.append(f"{name}: not listed in {NAME}")
        elif sha256_of(found[name]) != recorded[name]:
            faults.append(f"{name}: was changed: its content does not fit its digest in {NAME}")
    faults += [f"{name}: is an empty folder, which no dossier has" for name in empty_folders(folder)]
    return len(found), faults
