"""An earlier corpus of a campaign, and the results in the workspace that belong to it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testigo.campaign import Workspace
from testigo.corpus import Corpus, open_corpus
from testigo.errors import WorkspaceError
from testigo.ledger import Ledger, kinds

_SHORTEST = 6  # digits of a fingerprint: with a thousand corpora two agree in these once in thirty


@dataclass(frozen=True)
class Outdated:
    """A result that was made on another corpus than the present one."""

    kind: str
    """run, baseline, pilot or opening of the test."""
    name: str
    """The run's id, the folder's name, or the opening's reason."""
    corpus: str
    state: str = ""

    def to_json(self) -> dict[str, str]:
        """All fields as a JSON object."""
        return asdict(self)


def earlier_corpus(old: str, workspace: Workspace, ledger: Ledger) -> Corpus:
    """The corpus that a user means: by fingerprint (its first digits do), by folder, or by a workspace.

    Raises
    ------
    WorkspaceError
        When there is none, or several.
    DataError
        When it is damaged or of another version.
    """
    folder = Path(old)
    if (folder / "manifest.json").is_file():
        return open_corpus(folder)
    if (folder / "corpus").is_dir():
        return open_corpus(_last_of(folder))
    parent = workspace.root / "corpus"
    known = sorted(p.name for p in parent.iterdir() if not p.name.startswith(".")) if parent.is_dir() else []
    fitting = [name for name in known if name.startswith(old.lower())] if len(old) >= _SHORTEST else []
    if len(fitting) == 1:
        return open_corpus(parent / fitting[0])
    built = [str(event.body.get("fingerprint", "")) for event in ledger.events(kinds.CORPUS_BUILT)]
    here = ", ".join(name[:12] for name in dict.fromkeys([*built, *known]) if name in known) or "none"
    raise WorkspaceError(
        expected=f"a fingerprint (at least {_SHORTEST} digits), a folder of a corpus, or a workspace",
        found=f"'{old}', which fits {len(fitting)} of the corpora here: {here}",
        where="--diff",
        action="name one of these, or the folder of another workspace",
    )


def _last_of(workspace: Path) -> Path:
    with Workspace(workspace).open_ledger() as ledger:
        built = [str(event.body.get("fingerprint", "")) for event in ledger.events(kinds.CORPUS_BUILT)]
    for fingerprint in reversed(built):
        if (workspace / "corpus" / fingerprint).is_dir():
            return workspace / "corpus" / fingerprint
    raise WorkspaceError(
        expected="a workspace that built a corpus",
        found="none in its ledger",
        where=str(workspace),
        action="name the folder of the corpus itself",
    )


def outdated(workspace: Workspace, ledger: Ledger, present: str) -> tuple[Outdated, ...]:
    """Runs, baselines, pilots and openings of the test whose corpus is not the present one."""
    states = {run.id: run.state for run in ledger.runs()}
    found = [
        Outdated("run", folder.name, corpus, states.get(folder.name, ""))
        for folder, corpus in _made_on(workspace.root / "runs", "spec.json")
    ]
    found += [
        Outdated("baseline", folder.name, corpus)
        for folder, corpus in _made_on(workspace.root / "baseline", "predictions/*.spec.json", "predictions/spec.json")
    ]
    found += [
        Outdated("pilot", folder.name, corpus) for folder, corpus in _made_on(workspace.root / "pilot", "spec.json")
    ]
    found += [
        Outdated("opening of the test", str(event.body.get("reason", "")), str(event.body.get("corpus", "")))
        for event in ledger.events(kinds.TEST_OPENED)
    ]
    return tuple(one for one in found if one.corpus not in ("", present))


def _made_on(parent: Path, *specs: str) -> Iterable[tuple[Path, str]]:
    """Each folder with the fingerprint of the corpus that its spec names."""
    for folder in sorted(parent.iterdir()) if parent.is_dir() else ():
        for path in (path for spec in specs for path in sorted(folder.glob(spec))[:1]):
            try:
                named: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue
            yield folder, Path(str(named.get("corpus", ""))).name
            break
