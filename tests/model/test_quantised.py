"""Bases in few bits: what holds with bitsandbytes, and what is said without it.

Where bitsandbytes can be imported peft imports it, for three seconds in each process. So `make venv` puts it into a
folder beside the packages, and one process here has it on its path.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiny

import testigo
from testigo.errors import MissingExtra
from testigo.model import quantised
from testigo.model.base import locate
from testigo.model.load import load_base

CASES = Path(__file__).parents[1] / "support" / "quantised_cases.py"
BESIDE = Path(sys.prefix) / "beside"


def test_bases_in_few_bits_hold_what_is_promised_with_bitsandbytes_itself() -> None:
    own = Path(testigo.__file__).parents[1]
    path = [str(own), str(BESIDE), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(CASES)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}\n(`make venv` puts bitsandbytes there)"


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.save_base(tmp_path / "base", "llama")
    find = quantised.find_spec
    monkeypatch.setattr(quantised, "find_spec", lambda name: None if name == "bitsandbytes" else find(name))
    with pytest.raises(MissingExtra, match="bitsandbytes"):
        load_base(locate(f"path:{tmp_path / 'base'}"), bits="4bit")
