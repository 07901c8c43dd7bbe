"""Pure mathematics: no I/O, clock, framework or hidden randomness."""
