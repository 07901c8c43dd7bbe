"""The HTTP edge: connections, what they may send and hold, and the process that serves them. Knows no route."""
