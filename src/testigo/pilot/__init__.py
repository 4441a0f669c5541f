"""Goes through every phase of the campaign once, on the longest rows, and collects the evidence that the gates judge.

Reading order: `worker` (the pilot from top to bottom), `bench` (what the phases work on), `phases` (the clock and the
memory counters), then one file a phase, and `classes` for those that
a class head changes. `verdict` judges the evidence and needs no torch.
"""
