"""What `discreet doctor` says of one thing."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was examined: how it is, and what to do about it."""

    level: Level
    subject: str
    words: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.level:<8} {self.subject}: {self.words}{f' {self.remedy}' if self.remedy else ''}"
