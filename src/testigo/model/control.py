"""The check of an export in a fresh process: ``python -m testigo.model.control FOLDER --base REF`` prints JSON.

With ``--tell`` the lines before say how many control inputs are answered.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch

from testigo.errors import TestigoError, VerificationFailed, report
from testigo.model.base import locate
from testigo.model.export import load_export, read_record
from testigo.model.load import load_processor
from testigo.model.quantised import on_device
from testigo.model.reproduction import ControlInput, OnInput, Reproduction, reproduce, reproduce_classes, unheard


def check_export(
    folder: Path, base: str, *, relative_to: Path = Path(), trusted: bool = False, on_input: OnInput = unheard
) -> Reproduction:
    """Load an export on its base and reproduce its control inputs.

    Raises
    ------
    ModelError
        When the base is not the one to which the adapter is bound.
    VerificationFailed
        When a file of the export is not what its record says.
    """
    kept = read_record(folder)
    # in the numbers in which the outputs were recorded, where the accelerator is that this process finds
    files = locate(base, relative_to=relative_to, trusted=trusted)
    model = on_device(load_export(folder, files, dtype=getattr(torch, kept["dtype"])))
    inputs = [ControlInput.from_json(plain) for plain in kept["control_inputs"]]
    if "head" in kept:
        processor = load_processor(folder, trusted=trusted) if kept["head"]["reads"] == "image" else None
        return reproduce_classes(model, inputs, processor, on_input)
    stop_ids, limit = kept["stop_ids"], kept["max_new_tokens"]
    return reproduce(model, inputs, stop_ids=stop_ids, max_new_tokens=limit, on_input=on_input)


def _tell(done: int, of: int) -> None:
    print(json.dumps({"done": done, "of": of}), flush=True)


def main(arguments: list[str]) -> int:
    """Print the reproduction as JSON; exit 1 when an output differs."""
    parser = argparse.ArgumentParser(prog="testigo.model.control")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--base", required=True)
    parser.add_argument("--trust-remote-code", action="store_true", dest="trusted")
    parser.add_argument("--tell", action="store_true")
    options = parser.parse_args(arguments)
    on_input = _tell if options.tell else unheard
    try:
        result = check_export(options.folder, options.base, trusted=options.trusted, on_input=on_input)
    except VerificationFailed as error:
        print(json.dumps({"ok": False, "outputs_equal": 0, "control_rows": 0, "faults": [str(error)]}))
        return error.exit_code
    except TestigoError as error:
        report(error)
        print(json.dumps({"ok": False, "outputs_equal": 0, "control_rows": 0, "faults": [str(error)]}))
        return error.exit_code
    print(json.dumps(result.to_json()))
    return 0 if result.ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
