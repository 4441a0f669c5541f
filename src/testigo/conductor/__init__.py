"""The campaign told in order. `story` is the whole of it; the steps that it tells are one file each.

Each step is done once, recorded in the ledger, and found again by the next start: running the same command again goes
on where it stopped and does nothing twice. `grounds` is what every step stands on.
"""
