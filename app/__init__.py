"""Discreet: sketches of event streams in, differentially private histograms out, every release paid for."""

__version__ = "0.1.0"
