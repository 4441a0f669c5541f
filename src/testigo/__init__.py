"""Testigo: fine-tuning campaigns that can be trusted."""

__version__ = "0.1.0"
