"""``python -m testigo.page.vendoring`` brings the drawing library of the page's pictures from its npm packages.

The files lie in `assets/vendor/` beside their licences, so that the page needs no internet; run this again, with the
client `npm`, to take other versions. They are the versions that draw the dossier's pictures. Nothing else imports it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = {"vega": "6.2.0", "vega-lite": "6.4.3", "vega-interpreter": "2.2.1"}
"""The interpreter evaluates a picture's expressions without `eval`, which the page's policy forbids."""
VENDOR = Path(__file__).parent / "assets" / "vendor"
_FILES = {
    "vega": "build/vega.min.js",
    "vega-lite": "build/vega-lite.min.js",
    "vega-interpreter": "build/vega-interpreter.js",
}
# Of what the packages bring along, these are inside of the files; the others serve their command lines.
_INSIDE = re.compile(r"vega.*|d3-.*|topojson-client|internmap|delaunator|robust-predicates|tslib|json-stringify.*")
_IMPORT = re.compile(r"import \{([^}]*)\} from 'vega-util';")


def vendor(folder: Path = VENDOR) -> None:
    """Write the files and their licences."""
    with tempfile.TemporaryDirectory() as aside:
        root = Path(aside)
        (root / "package.json").write_text("{}")
        named = [f"{name}@{version}" for name, version in PACKAGES.items()]
        subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", *named], cwd=root, check=True)
        modules = root / "node_modules"
        folder.mkdir(parents=True, exist_ok=True)
        for name, file in _FILES.items():
            text = (modules / name / file).read_text(encoding="utf-8")
            (folder / f"{name}.js").write_text(_standing_alone(text), encoding="utf-8")
        (folder / "LICENSES.txt").write_text(_licences(modules), encoding="utf-8")


def _standing_alone(text: str) -> str:
    """Without its map, and with what it imports taken from the script that is loaded before it."""
    text = re.sub(r"\n//# sourceMappingURL=.*", "", text)
    return _IMPORT.sub(lambda match: f"const {{{match.group(1)}}} = globalThis.vega;", text)


def _licences(modules: Path) -> str:
    told = []
    for manifest in sorted(modules.glob("*/package.json")):
        folder = manifest.parent
        if not _INSIDE.fullmatch(folder.name):
            continue
        about = json.loads(manifest.read_text(encoding="utf-8"))
        texts = sorted(path for path in folder.iterdir() if path.name.upper().startswith(("LICENSE", "LICENCE")))
        words = texts[0].read_text(encoding="utf-8").strip() if texts else f"Licence: {about.get('license')}"
        told.append(f"{about['name']} {about['version']} ({about.get('license')})\n\n{words}\n")
    return f"\n{'-' * 80}\n\n".join(told)


if __name__ == "__main__":
    vendor()
    sys.exit(0)
