"""Rows from a folder of images: a folder for each class, or a `metadata` file that names each image.

The layouts are those of the hub's image folders and of torchvision's `ImageFolder`, so that a folder made for either
is read as it stands. Sources: Hugging Face datasets, "Create an image dataset"; torchvision, `ImageFolder`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from testigo.campaign.workspace import MARKER, is_marker
from testigo.corpus.images import ENDINGS_OF_IMAGES
from testigo.disk import file_sha256
from testigo.errors import Problem

METADATA = ("metadata.jsonl", "metadata.csv")
_SPLITS = frozenset({"train", "training", "valid", "validation", "val", "dev", "test", "eval"})

Found = Problem | tuple[dict[str, Any], str]


def files_under(path: Path) -> list[Path]:
    """The files of a folder and its subfolders, in the order of their names; nothing hidden, and no workspace's.

    Beside its campaign file a workspace may lie in the folder that is read, with a copy of its rows.
    """
    found = sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith("."))
    workspaces = {p.parent for p in found if p.name == MARKER and p.parent != path and is_marker(p)}
    return [p for p in found if workspaces.isdisjoint(p.parents)] if workspaces else found


def is_image_folder(path: Path, endings_of_rows: tuple[str, ...]) -> bool:
    """Whether a folder holds images and no rows, but for the files that describe the images."""
    files = files_under(path)
    rows = [p for p in files if p.suffix.lower() in endings_of_rows and p.name not in METADATA]
    return not rows and any(p.suffix.lower() in ENDINGS_OF_IMAGES for p in files)


def read_image_folder(
    path: Path, name: str, read_table: Callable[[Path, str], Iterator[Found]], ignored: list[str]
) -> Iterator[Found]:
    """Each image as a row, or what is wrong with it.

    A class folder gives `{"id": path, "image": …, "label": folder}`; a `metadata` file gives its own columns beside
    `image`, and its `file_name` as `id` where it has no column of that name.

    Parameters
    ----------
    read_table
        Reads a `metadata` file: (path, name) -> rows and problems.
    ignored
        Gets the files that are no row: images that no `metadata` names, and files of other kinds.
    """
    files = files_under(path)
    tables = [p for p in files if p.name in METADATA]
    images = [p for p in files if p.suffix.lower() in ENDINGS_OF_IMAGES]
    ignored += [p.relative_to(path).as_posix() for p in files if p not in {*tables, *images}]
    if not tables:
        yield from _classes(path, name, images)
        return
    named: set[str] = set()
    for table in tables:
        yield from _described(path, name, table, read_table, named)
    ignored += [p.relative_to(path).as_posix() for p in images if os.path.normpath(p) not in named]


def _classes(path: Path, name: str, images: list[Path]) -> Iterator[Found]:
    labels = {p.relative_to(path).parts[0] for p in images if p.parent != path}
    if labels and {label.casefold() for label in labels} <= _SPLITS:
        found = f"folders of splits: {', '.join(sorted(labels))}"
        action = "name the one to train on in `data.source`, the others in `data.split.validation` and `test`"
        yield Problem("a folder for each class", found, name, action)
        return
    for file in images:
        inside = file.relative_to(path).as_posix()
        if file.parent == path:
            found = "an image beside the class folders"
            action = "move it into its class's folder, or describe all in metadata.jsonl"
            yield Problem("each image in the folder of its class", found, f"{name}/{inside}", action)
            continue
        label = file.relative_to(path).parts[0]
        yield {"id": inside, "image": _reference(file, inside), "label": label}, f"{name}/{inside}"


def _described(
    path: Path, name: str, table: Path, read_table: Callable[[Path, str], Iterator[Found]], named: set[str]
) -> Iterator[Found]:
    told = f"{name}/{table.relative_to(path).as_posix()}"
    for found in read_table(table, told):
        if isinstance(found, Problem):
            yield found
            continue
        fields, where = found
        file_name = fields.get("file_name")
        if not isinstance(file_name, str) or not file_name.strip():
            yield Problem("the image's path in `file_name`", "none", where, "name the image file of the row")
            continue
        inside = os.path.normpath(table.parent.relative_to(path) / file_name)
        image = image_of(Path(inside).as_posix(), path, where)
        if isinstance(image, Problem):
            yield image
            continue
        named.add(os.path.normpath(path / inside))
        rest = {key: value for key, value in fields.items() if key != "file_name"}
        yield {"id": image["image"], **rest, "image": image}, where


def image_of(value: Any, root: Path, where: str) -> dict[str, Any] | Problem:
    """The form in which rows hold an image, from a path within a source or from a table's `{"bytes", "path"}`."""
    if isinstance(value, Mapping) and value.keys() == {"bytes", "path"} and isinstance(value["bytes"], str):
        return dict(value)
    if isinstance(value, Mapping) and isinstance(value.get("path"), str) and value.get("bytes") is None:
        value = value["path"]
    if not isinstance(value, str) or not value.strip():
        expected = 'the path of an image, or an object {"bytes", "path"}'
        return Problem(expected, f"a {type(value).__name__}", where, "name the image's file")
    if is_outside(value):
        action = "put the images into the folder of the rows, and name them from there"
        return Problem(
            "an image in the folder of the rows, or below it", f"{value!r}, which lies elsewhere", where, action
        )
    try:
        if not (root / value).is_file() and (root / value).exists():
            return Problem("an image file", f"{value}: no plain file", where, "name the image's file")
        return _reference(root / value, value)
    except ValueError:
        return Problem("the path of an image", "a name that no file system takes", where, "name the image's file")
    except OSError as error:
        found = f"{value}: {error.strerror or 'it cannot be read'}"
        return Problem("an image file that can be read", found, where, "correct the path, or put the file there")


def is_outside(name: str) -> bool:
    """Whether a name that came with the rows leads out of their folder: rows of others must not choose what is read."""
    return os.path.isabs(name) or "\\" in name or os.path.normpath(name).split(os.sep)[0] == os.pardir


def _reference(file: Path, inside: str) -> dict[str, Any]:
    return {"image": inside, "sha256": file_sha256(file)}
