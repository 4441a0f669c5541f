"""The kinds of events that Testigo writes, in one place. A kind is a free word; these are ours."""

from __future__ import annotations

from typing import Final

WORKSPACE_CREATED: Final = "workspace-created"
CAMPAIGN_REGISTERED: Final = "campaign-registered"
CAMPAIGN_AMENDED: Final = "campaign-amended"
CORPUS_BUILT: Final = "corpus-built"
SAMPLES_CONFIRMED: Final = "samples-confirmed"
BASELINE_EVALUATED: Final = "baseline-evaluated"
HYPOTHESIS_WEIGHED: Final = "hypothesis-weighed"
PILOT_FINISHED: Final = "pilot-finished"
PILOT_REPEATED: Final = "pilot-repeated"
GATE_WAIVED: Final = "gate-waived"
RUN_PLANNED: Final = "run-planned"
RUN_STARTED: Final = "run-started"
RUN_STOP_ASKED: Final = "run-stop-asked"
RUN_ENDED: Final = "run-ended"
RUN_INVALIDATED: Final = "run-invalidated"
RUN_EVALUATED: Final = "run-evaluated"
TRACKER_LEFT_BEHIND: Final = "tracker-left-behind"
COMPARED: Final = "compared"
TEST_OPENED: Final = "test-opened"
EXPORTED: Final = "exported"
DOSSIER_WRITTEN: Final = "dossier-written"
NOTE: Final = "note"

FREEZES: Final = frozenset({CAMPAIGN_REGISTERED, CAMPAIGN_AMENDED})
"""What was promised: the last of these holds."""
RUN_STATE_KINDS: Final = frozenset({RUN_PLANNED, RUN_STARTED, RUN_ENDED, RUN_INVALIDATED})
"""These change a run's state and are written by the methods for runs alone, which refuse impossible changes."""
