"""The live page: a campaign's workspace, read while it grows, shown by a small server on this machine.

It only reads: the ledger and the run folders are the truth, and nothing here writes to them. `application` makes the
ASGI application of one workspace, `serve` runs it; ``python -m testigo.page WORKSPACE`` is what `testigo serve` starts.
Reading order: `reading` and `steps` (files that grow), `site` (the workspace behind its caches), `plan`, `standing`,
`one_run`, `rows`, `events` (what each page shows), `live` (what changed), `guard` (who may ask), `app` (the routes).
"""

from __future__ import annotations

from testigo.page.serving import DEFAULT_PORT, application, serve

__all__ = ["DEFAULT_PORT", "application", "serve"]
