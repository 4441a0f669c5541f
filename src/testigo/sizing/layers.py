"""A deep model by two shallow ones: what each layer adds, where the whole model shows that it is the same for all.

Peaks are the largest of moments that each grow in a straight line with the number of layers. Carried on from few layers
they are exact as long as the same moment stays the highest, and too low otherwise; so nothing is carried on before it
was held against the whole model, and no answer is given before a third depth lies on the same line.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from testigo.sizing.tracker import KINDS, Peak

DEPTHS = (2, 4)
CONTROL_DEPTH = 6
FEWEST_LAYERS = 12
"""From here on it pays."""

Peaks = Mapping[str, Peak]


def n_layers_of(configuration: Any) -> int:
    """Layers of the (text) model; 0 where the configuration does not count them."""
    return int(getattr(configuration.get_text_config(), "num_hidden_layers", None) or 0)


def shallow(configuration: Any, n_layers: int) -> Any | None:
    """The same architecture with fewer layers; None where its layers are of several kinds."""
    made = copy.deepcopy(configuration)
    text = made.get_text_config()
    kinds = getattr(text, "layer_types", None)
    if kinds is not None:
        if len(set(kinds)) > 1:
            return None
        text.layer_types = list(kinds)[:n_layers]
    text.num_hidden_layers = n_layers
    return made


@dataclass
class ByLayers:
    """Carries peaks on from shallow models, if it was found right on the whole one."""

    configuration: Any
    run: Callable[[Any, Any, Any], Peaks]
    """Campaign, configuration, inputs -> peaks of a later update and a validation."""
    is_proved: bool = False

    def prove(self, campaign: Any, inputs: Any, whole: Peaks) -> None:
        """Allow it when it gives what the whole model gave for these inputs, phase by phase and kind by kind."""
        if n_layers_of(self.configuration) < FEWEST_LAYERS or shallow(self.configuration, 2) is None:
            return
        carried = self._carried(campaign, inputs, DEPTHS)
        self.is_proved = all(carried[phase] == whole[phase] for phase in carried if phase in whole)

    def peaks(self, campaign: Any, inputs: Any) -> Peaks:
        """By shallow models where that is proved, else by the whole one."""
        if self.is_proved:
            return self._carried(campaign, inputs, DEPTHS)
        return self.run(campaign, self.configuration, inputs)

    def surely(self, campaign: Any, inputs: Any) -> Peaks:
        """The same, and by the whole model where a third depth does not lie on the line."""
        if not self.is_proved:
            return self.run(campaign, self.configuration, inputs)
        carried = self._carried(campaign, inputs, DEPTHS)
        if carried == self._carried(campaign, inputs, (DEPTHS[1], CONTROL_DEPTH)):
            return carried
        return self.run(campaign, self.configuration, inputs)

    def _carried(self, campaign: Any, inputs: Any, depths: tuple[int, int]) -> Peaks:
        few, more = (self.run(campaign, shallow(self.configuration, depth), inputs) for depth in depths)
        times = (n_layers_of(self.configuration) - depths[0]) / (depths[1] - depths[0])
        return {phase: _carried_on(few[phase], more[phase], times) for phase in few}


def _carried_on(few: Peak, more: Peak, times: float) -> Peak:
    kinds = {
        kind: round(few.by_kind.get(kind, 0) + times * (more.by_kind.get(kind, 0) - few.by_kind.get(kind, 0)))
        for kind in KINDS
    }
    return Peak(sum(kinds.values()), {kind: n for kind, n in kinds.items() if n})
