"""One verb per function, one transaction per verb. A result is returned after its commit."""
