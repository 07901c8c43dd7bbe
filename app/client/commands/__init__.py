"""The commands that ask a server: one module for each group of them, and what they share in `common.py`."""
