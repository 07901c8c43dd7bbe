"""How results look: `output` is the only way to the terminal; bars, tables, histograms and progress build on it."""
