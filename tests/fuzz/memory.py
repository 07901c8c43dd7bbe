"""How much memory this process has now, and had at most. Linux tells; elsewhere it is 0, and nothing is checked."""

from pathlib import Path

_STATUS = Path("/proc/self/status")
_FORGET_PEAK = Path("/proc/self/clear_refs")


def resident_bytes() -> int:
    return _read("VmRSS")


def peak_bytes() -> int:
    """Since the last `forget_peak`."""
    return _read("VmHWM")


def forget_peak() -> None:
    if _FORGET_PEAK.exists():
        _FORGET_PEAK.write_text("5")


def _read(field: str) -> int:
    if not _STATUS.exists():
        return 0
    (line,) = (line for line in _STATUS.read_text().splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024
