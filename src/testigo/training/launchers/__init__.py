"""How a worker process is started: one launcher a file. Every launcher only starts ``python -m WORKER SPEC``."""
