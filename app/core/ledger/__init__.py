"""What a release costs, how costs add up, what they prove, and the chain of entries. Values alone, no database."""
