"""The logarithm of the normal distribution function, accurate in relative terms far into both tails."""

import math

import numpy as np
from numpy.typing import NDArray

_FAR = -30.0  # below it erfc loses digits before it underflows; the series is exact to 1e-15 there


def log_phi(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """log Φ(z), with Φ(z) = erfc(−z/√2)/2; by the asymptotic series of Mills' ratio where z is below −30."""
    near = np.maximum(z, _FAR)
    arguments = np.abs(near) / math.sqrt(2)
    tail = 0.5 * np.fromiter(map(math.erfc, arguments.flat), np.float64, z.size).reshape(z.shape)  # Φ(−|z|)
    log_near = np.where(near > 0, np.log1p(-tail), np.log(np.maximum(tail, 1e-300)))  # never that small below zero
    far = np.minimum(z, _FAR)
    inverse = 1 / far**2
    series = np.log1p(-inverse + 3 * inverse**2 - 15 * inverse**3 + 105 * inverse**4)
    log_far = -(far**2) / 2 - 0.5 * math.log(2 * math.pi) - np.log(-far) + series
    return np.where(z > _FAR, log_near, log_far)
