"""The loop in a worker process: order, loss, optimizer, schedule, checkpoints, resume.

Reading order: `spec` (what a run is), `order` (which rows make an update), `loss` (of a split), `optimizer` (with its
schedule), `loop` (the run from top to bottom), `checkpoint`, `journal` (what the run writes), `worker` (the process),
`launchers` (how the process is started).
"""
