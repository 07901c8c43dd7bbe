"""HTTP: parse, call one use case, render."""
