"""One module for each mechanism, with its proof note beside it. What is in this folder is what the service offers.

To add a mechanism, write a module that exports `MECHANISM` and its note: nothing else lists mechanisms.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from app.core import totals
from app.core.mechanism import Family, Mechanism

_found: list[Mechanism[Any]] = [import_module(f"{__name__}.{each.name}").MECHANISM for each in iter_modules(__path__)]
MECHANISMS = tuple(sorted(_found, key=lambda mechanism: (mechanism.rank, mechanism.name)))
COUNTED_BY_RHO = tuple(mechanism.name for mechanism in MECHANISMS if mechanism.rho_of)  # the others by their ε


def of_family(family: Family) -> Sequence[Mechanism[Any]]:
    """The mechanisms whose proofs cover sketches of this family."""
    return [mechanism for mechanism in MECHANISMS if family in mechanism.families]


def rho_of_entry(name: str | None, parameters: Mapping[str, Any]) -> Fraction | None:
    """ρ of a release by the parameters that a ledger's entry stored; None where it follows from the entry's ε.

    A total with Laplace noise has no ρ of its own: the release is counted by its ε as a whole.
    """
    for mechanism in MECHANISMS:
        if mechanism.name == name and mechanism.rho_of and parameters.get("total_noise") != "discrete-laplace":
            return mechanism.rho_of(parameters) + totals.rho_of(parameters)
    return None
