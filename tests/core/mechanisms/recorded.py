"""Samplers that give what they were told to, and remember what they were asked for."""


class Recorded:
    """Zero noise after the draws that are given."""

    def __init__(self, *draws: int) -> None:
        self.draws = draws
        self.asked: list[tuple[float, int]] = []

    def __call__(self, scale: float, size: int) -> list[int]:
        self.asked.append((scale, size))
        return [*self.draws, *[0] * size][:size]


class RecordedBelow:
    """The numbers that are given, one after the other, then the last number below the limit."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = list(numbers)
        self.asked: list[int] = []

    def __call__(self, limit: int) -> int:
        self.asked.append(limit)
        return self.numbers.pop(0) if self.numbers else limit - 1


no_noise = Recorded()
