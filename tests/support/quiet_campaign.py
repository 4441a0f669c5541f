"""A whole tiny campaign, in a network of loopback alone where the kernel allows: `python quiet_campaign.py SHARED`.

It is the campaign of the tests' `finished`, in the folder SHARED/finished. What each command answered goes to
`answers.json`. Up to its end the sealed test rows are garbage to whoever looks. Beside it, in SHARED/afterwards, every
command that reads a finished campaign is asked on a copy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

OWN_NETWORK = ["unshare", "--map-root-user", "--net"]
"""A network without any interface but loopback; unprivileged where the system lets users have one."""
AFTERWARDS = ("show", "size", "status", "compare", "export", "dossier", "plan", "ledger verify")


def enter(arguments: list[str]) -> None:
    """Go on in a network of loopback alone, if there may be one."""
    allowed = subprocess.run([*OWN_NETWORK, "ip", "link", "set", "lo", "up"], check=False, capture_output=True)
    os.environ["TESTIGO_TEST_NETWORK"] = "own" if allowed.returncode == 0 else "shared"
    if allowed.returncode == 0:
        again = 'ip link set lo up; exec "$@"'
        os.execvp(OWN_NETWORK[0], [*OWN_NETWORK, "sh", "-c", again, "sh", sys.executable, *arguments])


def without_route() -> int:
    """Packets and connections that this network found no way for, whoever asked: the kernel's own count."""
    if os.environ["TESTIGO_TEST_NETWORK"] == "shared":
        return 0
    names, values = [line.split() for line in Path("/proc/net/snmp").read_text().splitlines() if line.startswith("Ip:")]
    six = [line.split() for line in Path("/proc/net/snmp6").read_text().splitlines()]
    return int(values[names.index("OutNoRoutes")]) + sum(int(n) for name, n in six if name == "Ip6OutNoRoutes")


def main(shared: Path) -> None:
    """Every command, in this process; what they start are processes of their own."""
    import sealing
    import torch
    import whole

    torch.set_num_threads(1)
    place = whole.make(shared / "finished")
    checked = place.testigo("check", "--json")
    assert checked.code == 0, checked.out
    seal = sealing.sealed(place.workspace)
    content = sealing.garble(seal)
    answers: dict[str, Any] = {}
    for command in ("baseline", "pilot", "run"):
        answer = place.testigo(command, "--json")
        assert answer.code == 0, answer.err
        answers[command] = {"document": answer.document, "err": answer.err, "read": sealing.was_read(seal)}
        if command == "pilot":
            copied = place.copy(shared / "piloted")
            sealing.restore(sealing.sealed(copied.workspace), content)
            sealing.mark_unread(seal)
    sealing.restore(seal, content)
    copy, near = place.copy(shared / "afterwards"), whole.make(shared / "near")
    near.change({"data.duplicates": {"exact": "drop", "near": 0.8}})
    asked = [copy.testigo(command) for command in AFTERWARDS]
    asked += [copy.testigo("ledger export", "--to", str(shared / "events.jsonl"))]
    asked += [whole.testigo("verify", str(copy.workspace / "dossier")), near.testigo("check")]  # the latter with daft
    assert [answer.code for answer in asked] == [0] * len(asked), [answer.err for answer in asked if answer.code]
    told = {"answers": answers, "words": [answer.out + answer.err for answer in (checked, *asked)],
            "network": os.environ["TESTIGO_TEST_NETWORK"], "without_route": without_route()}  # fmt: skip
    (shared / "answers.json").write_text(json.dumps(told))


if __name__ == "__main__":
    if "TESTIGO_TEST_NETWORK" not in os.environ:
        enter(sys.argv)
    main(Path(sys.argv[1]))
