"""The largest inputs of a campaign that still fit."""

from __future__ import annotations

from dataclasses import dataclass

from testigo.campaign import Campaign
from testigo.sizing.bench import Bench, changed, highest
from testigo.sizing.search import largest_fitting
from testigo.sizing.terms import Terms

LENGTH_STEP = 16
"""The largest length is sought in steps of so many tokens."""
MOST_TOKENS = 131_072
"""Longer rows are of no interest where the base states no limit of its own."""


@dataclass(frozen=True)
class Limits:
    """The largest inputs of a campaign under a limit [bytes]."""

    bench: Bench
    terms: Terms
    limit: int
    campaign: Campaign

    def microbatch(self) -> tuple[int, bool]:
        """Rows at once, and whether it is known that one more does not fit."""
        bench = self.bench
        own, most = bench.n_rows(self.campaign), bench.most_rows(self.campaign)

        def needed(n_rows: int, *, surely: bool = False) -> int:
            with_rows = changed(self.campaign, {"training.microbatch": n_rows})
            return self.terms.needed(bench.peak(with_rows, f"{n_rows} rows a microbatch", surely=surely))

        found = largest_fitting(needed, self.limit, known={own: needed(own)}, most=most)
        if found.number > own and needed(found.number, surely=True) > self.limit:
            return own, False  # carried on from few layers it fitted, and the whole model does not
        return found.number, found.is_exact

    def length(self) -> int | None:
        """Tokens that every row may have, at the campaign's own microbatch."""
        bench = self.bench
        if bench.lengths.pixels is not None:
            return None

        def needed(n_steps: int, *, surely: bool = False) -> int:
            n_tokens = n_steps * LENGTH_STEP
            inputs = bench.inputs_of(self.campaign, n_tokens)
            return self.terms.needed(
                highest(bench.later(self.campaign, inputs, f"rows of {n_tokens} tokens", surely=surely))
            )

        text = bench.configuration.get_text_config()
        places = min(int(getattr(text, "max_position_embeddings", None) or MOST_TOKENS), MOST_TOKENS)
        own = bench.inputs(self.campaign).microbatches[-1][-1].n_tokens
        start, most = max(min(own, places) // LENGTH_STEP, 1), max(places // LENGTH_STEP, 1)
        found = largest_fitting(needed, self.limit, known={start: needed(start)}, most=most).number
        if found > start and needed(found, surely=True) > self.limit:
            found = start
        return found * LENGTH_STEP
