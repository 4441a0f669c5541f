"""``python -m testigo.page WORKSPACE`` is what `testigo serve` starts: page and commands do not know each other."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from testigo.errors import TestigoError
from testigo.page.serving import DEFAULT_PORT, LOOPBACK, serve
from testigo.signs import shown


def main(arguments: Sequence[str]) -> int:
    """Serve until asked to end; a user's error is told in four parts."""
    parser = argparse.ArgumentParser(prog="python -m testigo.page", description="Serve the live page of a workspace.")
    parser.add_argument("workspaces", type=Path, nargs="+", metavar="WORKSPACE")
    parser.add_argument("--host", default=LOOPBACK, help="the address to listen on; any but loopback needs a token")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="0 takes a free one")
    parser.add_argument("--token", default=None, help="what a client must show")
    parser.add_argument("--json", action="store_true", help="tell the address as one JSON document")
    given = parser.parse_args(arguments)

    def tell(address: str, acting: str) -> None:
        if given.json:
            first, *_ = named = [str(one) for one in given.workspaces]
            told = {"address": address, "acting": acting, "workspace": first, "workspaces": named}
            print(json.dumps(told), flush=True)
        else:
            print(address if acting == address else f"to read:     {address}\nto act too:  {acting}", flush=True)
        print("next:        open the address; Ctrl-C ends the page, and nothing else", file=sys.stderr, flush=True)

    try:
        serve(*given.workspaces, host=given.host, port=given.port, token=given.token, on_start=tell)
    except KeyboardInterrupt:
        return 0
    except TestigoError as error:
        if given.json:
            print(json.dumps({"ok": False, "problems": [asdict(problem) for problem in error.problems]}))
        else:
            print(shown(str(error)), file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
