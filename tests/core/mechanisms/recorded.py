"""Samplers that give what they were told to, and remember what they were asked for."""

from app.core.noise.samplers import Below, Noise, Sampler


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


def _not_asked_for(*asked: object) -> list[int]:
    raise AssertionError("the mechanism asked for noise of another law")


def laplace(sample: Sampler, below: Below | None = None) -> Noise:
    """Noise of which a mechanism may take the Laplace draws, and uniform numbers if some are given."""
    return Noise(sample, _not_asked_for, below or RecordedBelow())


def gaussian(sample: Sampler) -> Noise:
    """Noise of which a mechanism may take the Gaussian draws alone."""
    return Noise(_not_asked_for, sample, RecordedBelow())
