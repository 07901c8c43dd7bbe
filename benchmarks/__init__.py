"""Measurements. They print ratios against a peer in the same run, because machines differ and are shared."""
