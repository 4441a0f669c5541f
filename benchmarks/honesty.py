"""Does the judgement keep its promises? Thousands of simulated campaigns whose truth is known; writes docs/honesty.md.

    python benchmarks/honesty.py                    all of it, about an hour on two cores
    python benchmarks/honesty.py --campaigns 500    a look
    python benchmarks/honesty.py --keep FOLDER      as much as there is time for; the same again goes on

Each campaign is judged by the functions that judge real ones, from `testigo.judgement`; nothing of them is copied here.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
from drawn_campaigns import CLASSES, Case, Draw, Floats, draw, ragged, single

from testigo import judgement
from testigo.judgement import Paired, compare_corpus, compare_paired, decide_guard, decide_improvement
from testigo.judgement.bootstrap import drawn_means
from testigo.judgement.corpus_metric import counts_of
from testigo.judgement.foresight import corpus_world, row_world
from testigo.judgement.paired import units_of
from testigo.judgement.seeds import OverSeeds, are_carried, over_seeds, two_way_interval, two_way_interval_of_counts

ALPHA: Final = 0.05
AGREE: Final = 0.5
"""Share of rows on which the tuned model answers as the baseline, where no effect and falls are simulated. Where power
is, none: the product foretells it for answers that do not depend on each other."""
PAGE: Final = Path(__file__).parents[1] / "docs" / "honesty.md"


@dataclass
class Tally:
    """What became of the campaigns of one case."""

    n: int = 0
    shown: int = 0
    covered: int = 0
    falls: int = 0
    kept: int = 0
    fall_covered: int = 0
    rises: int = 0
    found: int = 0
    rise_covered: int = 0
    over_seeds: int = 0
    two_way: int = 0
    foretold: list[float] = field(default_factory=list)
    how: str = ""

    def add(self, other: Tally) -> None:
        """Both together."""
        for name, value in vars(other).items():
            setattr(self, name, value if name == "how" else getattr(self, name) + value)


@dataclass(frozen=True)
class Judged:
    """What the product says of one campaign."""

    paired: Paired
    verdict: str
    seeds: OverSeeds | None


def judged(case: Case, drawn: Draw, by: float, seed: int) -> Judged:
    """The registered run is the first seed's; the others have to carry it."""
    texts: list[list[str]] = []
    if case.kind == "corpus":
        texts = [[CLASSES[k] for k in side] for side in (drawn.targets, drawn.before, *drawn.after)]
    if texts:
        paired = compare_corpus(texts[0], texts[1], texts[2], groups=drawn.groups, alpha=ALPHA, seed=seed)
    else:
        paired = compare_paired(
            drawn.before, drawn.after[0], kind=case.kind, groups=drawn.groups, alpha=ALPHA, seed=seed
        )
    verdict: str = decide_improvement(paired, by=by, alpha=ALPHA)
    spread = None
    if case.n_seeds > 1:
        spread = _spread_of_texts(texts, drawn, seed) if texts else _spread(drawn, seed)
        verdict = verdict if verdict != "shown" or are_carried(spread, by) else "not decided"
    return Judged(paired, verdict, spread)


def _spread(drawn: Draw, seed: int) -> OverSeeds:
    rises = [after - drawn.before for after in drawn.after]
    found = over_seeds("score", {k: float(rise.mean()) for k, rise in enumerate(rises)}, ALPHA)
    if len(rises) < 5:
        return found
    units = [units_of(rise, drawn.groups) for rise in rises]
    low, high = two_way_interval(np.stack([sums for sums, _ in units]), units[0][1], ALPHA, seed)
    return replace(found, both_low=low, both_high=high)


def _spread_of_texts(texts: list[list[str]], drawn: Draw, seed: int) -> OverSeeds:
    targets, classes = texts[0], sorted(set(texts[0]))
    before, *after = (counts_of(targets, side, drawn.groups, classes) for side in texts[1:])
    found = over_seeds("macro_f1", {k: one.macro_f1 - before.macro_f1 for k, one in enumerate(after)}, ALPHA)
    if len(after) < 5:
        return found
    stacked: Floats = np.stack([one.values for one in after])
    low, high = two_way_interval_of_counts(before.values, stacked, ALPHA, seed)
    return replace(found, both_low=low, both_high=high)


def simulate(case: Case, n: int, entropy: tuple[int, ...]) -> Tally:
    """So many campaigns without effect; a share of them falls by the whole margin too, a fifth of it has an effect."""
    rng, tally, every = np.random.default_rng(entropy), Tally(), round(1 / case.share_of_effects)
    for k in range(n):
        drawn = draw(case, rng, 0.0, AGREE)
        found = judged(case, drawn, 0.0, k)
        tally.n += 1
        tally.shown += found.verdict == "shown"
        tally.covered += found.paired.low <= drawn.truths[0] <= found.paired.high
        tally.how = f"{found.paired.test}; {found.paired.interval}"
        if found.seeds is not None and case.seed_spread:
            low, high = found.seeds.low, found.seeds.high
            if drawn.on_these_rows is not None and low is not None and high is not None:
                tally.over_seeds += low <= drawn.on_these_rows <= high
            if found.seeds.both_low is not None and found.seeds.both_high is not None:
                tally.two_way += found.seeds.both_low <= 0 <= found.seeds.both_high
        if not case.only_null and k % every == 0:
            _fall(case, rng, k, tally)
            if k % (5 * every) == 0:
                _rise(case, rng, k, tally)
    return tally


def _fall(case: Case, rng: np.random.Generator, k: int, tally: Tally) -> None:
    drawn = draw(case, rng, -case.within, AGREE)
    paired = judged(case, drawn, 0.0, k).paired
    tally.falls += 1
    tally.kept += decide_guard(paired, case.within) == "kept"
    tally.fall_covered += paired.low <= -case.within <= paired.high


def _rise(case: Case, rng: np.random.Generator, k: int, tally: Tally) -> None:
    drawn = draw(case, rng, case.rise, 0.0)
    found = judged(case, drawn, case.by, k)
    tally.rises += 1
    tally.found += found.verdict == "shown"
    tally.rise_covered += found.paired.low <= case.rise <= found.paired.high
    if k % 200 == 0:  # what would have been foretold from this campaign's baseline
        if case.kind == "corpus":
            sides = [[CLASSES[one] for one in side] for side in (drawn.targets, drawn.before)]
            world = corpus_world(*sides, drawn.groups, ALPHA, k)
        else:
            world = row_world(drawn.before, case.kind, drawn.groups, ALPHA, k)
        tally.foretold.append(world.chance(case.rise, case.by))


CASES: Final = (
    Case("yes or no, 80 rows", "binary", single(80)),
    Case("yes or no, 24 ragged groups", "binary", ragged(24, 4), rise=0.25),
    Case("yes or no, 220 ragged groups", "binary", ragged(220, 2), rise=0.12, share_of_effects=0.25),
    Case("0 to 1, 60 rows", "bounded", single(60), rise=0.14),
    Case("0 to 1, 240 rows", "bounded", single(240), rise=0.09, share_of_effects=0.25),
    Case("0 to 1, 24 ragged groups", "bounded", ragged(24, 4), rise=0.14),
    Case("macro F1, 150 rows", "corpus", single(150), rise=0.16),
    Case("macro F1, 40 ragged groups", "corpus", ragged(40, 4), rise=0.18),
    Case("macro F1, 240 rows", "corpus", single(240), rise=0.13, share_of_effects=0.25),
)
SEEDED: Final = tuple(
    Case(f"{name}, {n} seed{'s' if n > 1 else ''}{f' that differ by {spread:g}' if spread else ''}",
         kind, sizes, n_seeds=n, seed_spread=spread, only_null=True)
    for name, kind, sizes in (
        ("yes or no, 24 ragged groups", "binary", ragged(24, 4)),
        ("0 to 1, 24 ragged groups", "bounded", ragged(24, 4)),
        ("macro F1, 40 ragged groups", "corpus", ragged(40, 4)),
    )
    for n in (1, 3, 5)
    for spread in (0.0, 0.05)
)  # fmt: skip


PIECE: Final = 500


def run(cases: Sequence[Case], n: int, processes: int, keep: Path | None = None) -> dict[str, Tally]:
    """Each case's tally, in pieces over processes; the pieces have random numbers of their own.

    Parameters
    ----------
    keep
        A folder for the tallies of pieces: what lies there is not simulated again while the judgement and this file are
        the same, so that a run that was ended goes on.
    """
    found = {case.name: Tally() for case in cases}
    every = (*CASES, *SEEDED)
    pieces = [(case, min(PIECE, n - start), (2026, case.n_seeds, every.index(case), start))
              for case in cases for start in range(0, n, PIECE)]  # fmt: skip
    with ProcessPoolExecutor(processes) as pool:
        work = [(case, pool.submit(piece, case, size, entropy, keep)) for case, size, entropy in pieces]
        for done, (case, future) in enumerate(work, 1):
            found[case.name].add(future.result())
            print(f"\r{done} of {len(work)}: {case.name:60}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def piece(case: Case, n: int, entropy: tuple[int, ...], keep: Path | None) -> Tally:
    """A piece's tally; kept where a folder is given, and taken from there."""
    path = keep / _code() / f"{'-'.join(map(str, entropy))}-{n}.json" if keep else None
    if path and path.is_file():
        return Tally(**json.loads(path.read_text(encoding="utf-8")))
    tally = simulate(case, n, entropy)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".part")
        aside.write_text(json.dumps(vars(tally), default=float), encoding="utf-8")
        aside.rename(path)
    return tally


@cache
def _code() -> str:
    """A digest of what judges and of what is judged."""
    files = [*Path(judgement.__file__).parent.glob("*.py"), *Path(__file__).parent.glob("*.py")]
    judging = [file for file in sorted(files) if file.parent.name == "judgement" or file.stem in _OWN]
    return hashlib.sha256(b"".join(file.read_bytes() for file in judging)).hexdigest()[:12]


_OWN: Final = ("honesty", "drawn_campaigns")


def error_of(share: float, n: int) -> float:
    """Two standard errors of a share among n campaigns."""
    return 2 * math.sqrt(max(share * (1 - share), 1e-4) / n)


def faults_of(cases: Sequence[Case], tallies: dict[str, Tally]) -> list[str]:
    """Every promise that the simulation does not bear out."""
    faults = []
    for case in cases:
        tally = tallies[case.name]
        if tally.shown / tally.n > ALPHA + error_of(ALPHA, tally.n) and not _speaks_of_one(case):
            faults.append(f"{case.name}: {tally.shown / tally.n:.1%} of campaigns without effect are shown")
        covers = [(tally.covered, tally.n, "no effect"), (tally.fall_covered, tally.falls, "a fall"),
                  (tally.rise_covered, tally.rises, "a rise")]  # fmt: skip
        if case.seed_spread and case.n_seeds == 5:
            covers.append((tally.two_way, tally.n, "seeds and rows"))
        if case.seed_spread and case.n_seeds > 1 and case.kind != "corpus":
            covers.append((tally.over_seeds, tally.n, "seeds"))
        for hits, n, what in covers:
            if n and not 0.93 - error_of(0.93, n) <= hits / n <= 0.97 + error_of(0.97, n):
                faults.append(f"{case.name}: intervals cover {hits / n:.1%} ({what})")
        if tally.falls and tally.kept / tally.falls > ALPHA + error_of(ALPHA, tally.falls):
            faults.append(f"{case.name}: {tally.kept / tally.falls:.1%} of true violations are kept")
        if tally.rises and tally.foretold:
            apart = float(np.mean(tally.foretold)) - tally.found / tally.rises
            noise = error_of(0.8, tally.rises) + 2 * float(np.std(tally.foretold)) / math.sqrt(len(tally.foretold))
            if abs(apart) > 0.03 + noise:
                faults.append(f"{case.name}: power foretold {100 * apart:+.1f} points off")
    return faults


def _speaks_of_one(case: Case) -> bool:
    """One seed says nothing of other seeds: with it *shown* speaks of one adapter."""
    return case.n_seeds == 1 and case.seed_spread > 0


def bootstrap_seconds() -> tuple[float, float]:
    """The best of three by the clock, and its processor time: 10,000 draws over 10,000 rows, no two of them equal."""
    rows = np.random.default_rng(0).normal(0, 1, 10_000)
    best = (math.inf, math.inf)
    for seed in range(3):
        began, busy = time.perf_counter(), time.process_time()
        drawn_means(rows, np.ones(10_000), seed, 10_000)
        best = min(best, (time.perf_counter() - began, time.process_time() - busy))
    return best


def page(tallies: dict[str, Tally], faults: list[str], seconds: float, bootstrap: tuple[float, float], n: int) -> str:
    """docs/honesty.md."""
    share = lambda hits, of: f"{100 * hits / of:.1f} %" if of else "–"  # noqa: E731
    lines = [
        "# Simulated campaigns: do the verdicts keep their promises?",
        "",
        "<!-- written by benchmarks/honesty.py; `make honesty` brings it up to date -->",
        "",
        f"{n:,} campaigns without effect a line, and as many that fall (a quarter where each takes long), with known",
        "truth, each judged by the functions that judge real ones, at alpha 0.05",
        f"({seconds / 60:.0f} minutes). Two standard errors of a share near 5 % are {100 * error_of(ALPHA, n):.1f} "
        "points, near 95 % as many; of power",
        f"(a fifth of the falls) {100 * error_of(0.8, max(n // 5, 1)):.1f}.",
        "",
        "- **false shown**: no effect at all, and any rise counts as large enough; at most 5 % is promised, and an",
        "  honest two-sided test gives 2.5 %. Half of the rows are answered alike by both models.",
        "- **covers**: the 95 % interval holds the truth, where there is no effect, a fall and a rise; 93 to 97 % is",
        "  promised.",
        "- **violation kept**: the metric falls by the guard's whole margin, 0.05; at most 5 % may be *kept*.",
        "- **power**: *shown* with the named true rise and a registered 0.05; foretold from the baseline alone,",
        "  and seen.",
        "",
        "| rows and metric | test; interval | campaigns | false shown | covers: none | fall | rise | violation kept | "
        "true rise | power foretold | seen |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case in CASES:
        tally = tallies[case.name]
        lines.append(
            f"| {case.name} | {tally.how} | {tally.n:,} | {share(tally.shown, tally.n)} | "
            f"{share(tally.covered, tally.n)} | "
            f"{share(tally.fall_covered, tally.falls)} | {share(tally.rise_covered, tally.rises)} | "
            f"{share(tally.kept, tally.falls)} | {case.rise:g} | {share(sum(tally.foretold), len(tally.foretold))} | "
            f"{share(tally.found, tally.rises)} |"
        )
    lines += [
        "",
        "## Several seeds",
        "",
        "Seeds of one recipe differ: where the table says so, each seed's true effect is drawn around zero with a",
        "standard deviation of 0.05, so the recipe has no effect, and one adapter may have one. *Shown* then asks for",
        "the first seed's test and for the t interval over seeds above zero; from five seeds on for",
        "the interval over seeds and rows too.",
        "",
        "| rows and metric | campaigns | false shown | covers: first seed | over seeds (these rows) | seeds and rows |",
        "|---|---|---|---|---|---|",
    ]
    for case in SEEDED:
        tally = tallies[case.name]
        seeds = case.seed_spread > 0 and case.n_seeds > 1 and case.kind != "corpus"
        lines.append(
            f"| {case.name} | {tally.n:,} | {share(tally.shown, tally.n)}{' *' if _speaks_of_one(case) else ''} | "
            f"{share(tally.covered, tally.n)} | {share(tally.over_seeds, tally.n) if seeds else '–'} | "
            f"{share(tally.two_way, tally.n) if case.seed_spread and case.n_seeds == 5 else '–'} |"
        )
    lines += [
        "",
        "\\* With one seed nobody can know how far another seed would fall. *Shown* is then true of the one adapter",
        "that was evaluated (its own interval covers as promised), and not of the recipe; `testigo compare` says so.",
        "",
        "## Speed",
        "",
        f"10,000 bootstrap draws over 10,000 rows, no two alike: {bootstrap[0]:.2f} s by the clock (best of three),",
        f"{bootstrap[1]:.2f} s of processor time on two threads.",
        "",
        "## What does not hold",
        "",
        *([f"- {fault}" for fault in faults] or ["Nothing of the above."]),
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    """Simulate, tell, write the page; 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--campaigns", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--keep", type=Path, default=None, help="a folder in which an ended run goes on")
    parser.add_argument("--write", type=Path, default=None, help="where the page goes (docs/honesty.md)")
    asked = parser.parse_args()
    began = time.perf_counter()
    cases = [case for case in (*CASES, *SEEDED) if asked.only in case.name]
    tallies = run(cases, asked.campaigns, asked.processes, asked.keep)
    faults = faults_of(cases, tallies)
    for case in cases:
        print(case.name, {k: v for k, v in vars(tallies[case.name]).items() if k != "foretold"})
    print("\n".join(faults) or "every promise is kept")
    if not asked.only:
        seconds = time.perf_counter() - began
        text = page(tallies, faults, seconds, bootstrap_seconds(), asked.campaigns)
        (asked.write or PAGE).write_text(text, encoding="utf-8")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
