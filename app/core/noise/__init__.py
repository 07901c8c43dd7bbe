"""Randomness and its laws: exact samplers, and tails of what they draw, rounded outward."""
