"""`testigo dossier`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from testigo.cli.opening import find_workspace
from testigo.cli.output import CampaignPath, JsonFlag, WorkspaceFlag, ending, print_json, short, show
from testigo.errors import WorkspaceError


def dossier(
    campaign: CampaignPath,
    workspace: WorkspaceFlag = None,
    sign: Annotated[
        Path | None,
        typer.Option("--sign", metavar="KEY", help="Sign the dossier with this private key (Ed25519, PEM or OpenSSH)."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Write the report on everything that happened so far: a page, its JSON twin, a model card, hashes.

    It can be written at any time; what is missing is named in it.

    Example: testigo dossier campaign.yaml
    """
    from testigo.campaign import load
    from testigo.campaign.registration import require_registered
    from testigo.dossier import build_dossier, read_record, signature
    from testigo.dossier.conclusion import badge, sentence
    from testigo.dossier.files import sha256_of
    from testigo.dossier.sums import NAME
    from testigo.ledger import kinds

    found = find_workspace(campaign, workspace)
    file = campaign if campaign.is_file() else found.campaign_path
    if file is None or not file.is_file():
        raise WorkspaceError(
            expected="the campaign file beside its workspace",
            found=f"{file}, which is not there" if file else "a workspace that names none",
            where=str(found.root),
            action=f"testigo dossier CAMPAIGN_FILE --workspace {short(found.root)}",
        )
    if sign is not None:
        signature.check_key(sign, public=False)
    with found.open_ledger() as ledger:
        loaded = load(file)
        require_registered(loaded, ledger)
        folder = build_dossier(found, loaded, ledger)
        ledger.append(kinds.DOSSIER_WRITTEN, {"sha256sums": sha256_of(folder / NAME)})
    if sign is not None:
        signature.sign(folder, sign)
    record = read_record(folder)
    verdict, missing = badge(record), [f"{part.part}: {part.why}" for part in record.missing]
    if as_json:
        document = {"folder": folder, "verdict": verdict.words, "conclusion": sentence(record), "missing": missing}
        print_json(document)
    else:
        show(f"{verdict.words}. {sentence(record).removeprefix(f'{verdict.words}: ')}")
        for line in missing:
            show(f"missing, {line}")
        show(short(folder / "index.html"))
    recomputed = record.comparison is not None and record.comparison.recomputed is True
    ending(
        checked="the ledger's chain" + ("; the statistics, computed again from the rows" if recomputed else ""),
        not_checked="the control inputs of the adapter" if record.adapter else "",
        next_command=f"testigo verify {short(folder)}" + (" --key PUBLIC" if sign else ""),
    )
