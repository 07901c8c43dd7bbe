"""Advice in a few sentences, for somebody who knows no formula."""

from collections.abc import Iterator

from app.core.advice import Advice
from app.core.ledger.budget import decimal_text

_ALL = {
    "everything": "Every release covers all events since the start, so an event is in all of them.",
    "period": "Every {every} has a sketch and a budget of its own, so an event is paid for in one of them alone.",
}


def said(advice: Advice) -> str:
    """What to take, what it gives, how wrong that can be, and what would give more."""
    return " ".join([*_taken(advice), *_listed(advice), *_error(advice), *_more(advice), *_protected(advice)])


def _taken(advice: Advice) -> Iterator[str]:
    wish, setup = advice.wish, advice.setup
    total, asked = setup.need.budget.as_strings(), setup.asked.as_strings()
    usual = "" if wish.budget else ", usual totals, because you named none"
    yield (
        f"Make a sketch of k = {setup.k:,} counters, paid from a {setup.accountant} ledger of ε = {total['epsilon']} "
        f"and δ = {total['delta']} in all{usual}."
    )
    yield _ALL[wish.covers].format(every=wish.every)
    each = "The one release asks" if setup.need.releases == 1 else f"Each of {setup.need.releases:,} releases asks"
    price = f"ρ = {asked['rho']}" if setup.asked.rho_units else f"ε = {asked['epsilon']}"
    fits = "one fits" if setup.fits == 1 else f"{setup.fits:,} fit"
    yield f"{each} for {price} and δ = {asked['delta']}, of which {fits} into the budget."
    for other in advice.others:
        if other.smallest_likely_count > setup.smallest_likely_count:
            yield f"By a {other.accountant} ledger a key would need a count of {other.smallest_likely_count:,} instead."


def _listed(advice: Advice) -> Iterator[str]:
    setup, wish = advice.setup, advice.wish
    sure = decimal_text(100 * (1 - wish.beta))
    yield f"A key with a count of {setup.smallest_likely_count:,} is then listed with probability {sure} %, at least."
    if advice.is_met is None:
        return
    if advice.is_met:
        yield f"So the {wish.smallest_count:,} that you asked for is met."
        return
    enough = [step for step in advice.steps if step.setup.smallest_likely_count <= (wish.smallest_count or 0)]
    helps = ", or ".join(f"{step.change} = {step.to}" for step in enough)
    crowded = setup.sketch_error > setup.offer.smallest_likely_count
    several = "fewer releases, or " if setup.need.releases > 1 else ""
    else_do = "fewer events in a sketch, or more counters" if crowded else f"{several}a larger budget"
    remedy = f"With {helps} it would be." if helps else f"No single step meets it. What it needs most: {else_do}."
    yield f"The {wish.smallest_count:,} that you asked for is not met. {remedy}"


def _error(advice: Advice) -> Iterator[str]:
    setup = advice.setup
    bound = setup.offer.noise_bound
    yield (
        f"By its noise a listed count may be {bound.below:,} too high or {bound.above:,} too low. The sketch itself "
        f"may miss {setup.sketch_error:,} more, at worst: {setup.need.events:,} events divided by k + 1. Every release "
        "measures how much that was; mostly it is far less."
    )
    if setup.offer.total:
        reach = setup.offer.total.reach(setup.offer.beta_of_total)
        counted = "events" if setup.need.contributions.unit == "event" else "people"
        yield f"The number of {counted} comes to within {reach:,}."


def _more(advice: Advice) -> Iterator[str]:
    if advice.larger_k:
        yield advice.larger_k
    setup = advice.setup
    for step in advice.steps:
        if step.to == "period" and 2 * step.setup.smallest_likely_count <= setup.smallest_likely_count:
            yield (
                f"A new sketch for every {advice.wish.every} (covers = {step.to}) would list keys with a count of "
                f"{step.setup.smallest_likely_count:,} in that {advice.wish.every}, because its events share no budget "
                "with others."
            )


def _protected(advice: Advice) -> Iterator[str]:
    unit, most = advice.setup.need.contributions.unit, advice.setup.need.contributions.most
    if unit == "event" and most == 1:
        yield "This protects single events; a person who sends several is protected less."
        return
    counted = f"up to {most:,} events" if unit == "event" else f"one set of up to {most:,} keys"
    yield f"This protects people, {counted} of each."
    if advice.wish.covers == "period":
        yield f"A person who comes in several sketches, one every {advice.wish.every}, has that in each of them."
