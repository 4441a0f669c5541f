"""A campaign file that lies without the files it names, as in a dossier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from testigo.campaign.campaign import Campaign
from testigo.campaign.loading import with_plain_settings
from testigo.errors import CampaignError

_NONE = "not known"


def load_alone(path: Path, frozen: Mapping[str, Any]) -> Campaign:
    """Read a campaign file whose schemas and rules are not there: their digests are those of a frozen form.

    Parameters
    ----------
    frozen
        The canonical form that the ledger keeps. A file that it does not know gets no digest, and so another identity.

    Raises
    ------
    CampaignError
        The file is not YAML, or not a campaign.
    """
    document, problems = with_plain_settings(path)
    try:
        campaign = Campaign.model_validate(document.data)
    except ValidationError as error:
        raise CampaignError(
            expected="the settings of a campaign",
            found="; ".join(".".join(map(str, one["loc"])) + f": {one['msg']}" for one in error.errors()[:5]),
            where=str(path),
            action="get an unchanged copy",
        ) from error
    if problems or document.problems:
        raise CampaignError(
            expected="the settings of a campaign",
            found="a key twice, or what only YAML allows",
            where=str(path),
            action="get an unchanged copy",
        )
    campaign._document = document
    campaign._contents = dict(_digests(campaign, frozen))
    return campaign


def _digests(campaign: Campaign, frozen: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    guards, known = [guard.task for guard in campaign.guards], _list(frozen.get("guards"))
    tasks = [(campaign.task, frozen.get("task"))]
    tasks += [(task, _mapping(one).get("task")) for task, one in zip_longest(guards, known[: len(guards)])]
    for task, as_frozen in tasks:
        if task.schema_file is not None:
            yield task.schema_file, str(_mapping(as_frozen).get("schema") or _NONE)
    files = campaign.rules.files
    for file, digest in zip_longest(files, _list(_mapping(frozen.get("rules")).get("files"))[: len(files)]):
        yield file, str(digest or _NONE)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
