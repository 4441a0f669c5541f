"""The campaign file: read, checked as a whole, and frozen; what follows from it is its plan and its identity.

`load` gives a `Campaign` or tells all problems at once with file, line and column. `planned_runs` lists the control and
the variants with each seed, `run_id` names a run by what defines it, and `Workspace` says where a campaign's files lie.
"""

from __future__ import annotations

from testigo.campaign.against_rules import check_rules
from testigo.campaign.campaign import Campaign
from testigo.campaign.loading import load, with_variant
from testigo.campaign.metrics import METRICS
from testigo.campaign.plan import PlannedRun, planned_runs, run_definition, run_id
from testigo.campaign.reference import campaign_reference, json_schema
from testigo.campaign.sections import Variant
from testigo.campaign.starting import new_campaign
from testigo.campaign.ways_out import WayOut, ways_out
from testigo.campaign.workspace import Workspace

__all__ = [
    "METRICS",
    "Campaign",
    "PlannedRun",
    "Variant",
    "WayOut",
    "Workspace",
    "campaign_reference",
    "check_rules",
    "json_schema",
    "load",
    "new_campaign",
    "planned_runs",
    "run_definition",
    "run_id",
    "ways_out",
    "with_variant",
]
