"""One module per mechanism, each with its proof note beside it."""
