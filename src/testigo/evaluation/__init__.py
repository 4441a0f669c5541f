"""Predict, score, keep: baseline and tuned model by one function, every output kept row by row.

Reading order: `decode` (greedy generation with a shared prefix), `predict` (a split becomes predictions), `worker`.
"""
