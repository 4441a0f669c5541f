"""Predict, score, keep: baseline and tuned model by one function, every output kept row by row.

Reading order: `prediction` (one row's output), `decode` (greedy generation with a shared prefix), `classify` (one
forward pass before a class head), `predict` (a split becomes predictions), `beside` (general
text, and targets without their inputs), `prompted` (the base with examples), `more` (second looks of the base, guard
tasks), `worker`.
"""
