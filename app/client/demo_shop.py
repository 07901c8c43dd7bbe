"""Page views of a web shop that does not exist: the same each time, with a few pages that nobody should learn of."""

import random
from collections import Counter
from itertools import product

EVENTS = 200_000
_SEED = 20_260_401
_EXPONENT = 1.25
_CAMPAIGN_SHARE = 0.08

_MAIN = ("/", "/search", "/cart", "/category/desks", "/checkout", "/category/lamps", "/sale", "/category/chairs")
_CAMPAIGNS = ("/?campaign=spring-sale", "/?campaign=newsletter-14", "/?campaign=partner-blog")
_KINDS = (
    *("oak", "walnut", "birch", "steel", "marble", "rattan", "linen", "wool", "clay", "brass"),
    *("cork", "glass", "pine", "slate", "jute", "bamboo", "copper", "felt", "cane", "stone"),
)
_THINGS = (
    *("desk", "lamp", "chair", "shelf", "stool", "rug", "vase", "clock", "mirror", "tray", "bench", "bowl"),
    *("frame", "hook", "bed", "sofa", "table", "crate", "planter", "teapot", "mug", "bookend", "coaster", "stand"),
)
SECRETS = {  # page -> how often it was seen
    "/orders/7341/refund-for-divorce": 1,
    "/gift/ring-for-anna?from=tom": 2,
    "/staff/layoffs-2026-draft": 2,
    "/account/delete/maria.k": 1,
}


def pages() -> list[str]:
    """The pages of the shop, the most popular first."""
    goods = [f"/p/{kind}-{thing}" for kind, thing in product(_KINDS, _THINGS)]
    random.Random(_SEED).shuffle(goods)  # noqa: S311  # a demonstration, the same each time
    return [*_MAIN, *goods]


def views() -> list[str]:
    """The page of each view, in the order in which they came; among them are the `SECRETS`."""
    rng = random.Random(_SEED)  # noqa: S311
    rare = [page for page, times in SECRETS.items() for _ in range(times)]
    campaigns = round(EVENTS * _CAMPAIGN_SHARE)
    popular = pages()
    weights = [1 / rank**_EXPONENT for rank in range(1, len(popular) + 1)]
    seen = [
        *rng.choices(popular, weights, k=EVENTS - campaigns - len(rare)),
        *rng.choices(_CAMPAIGNS, (6, 3, 1), k=campaigns),
        *rare,
    ]
    rng.shuffle(seen)
    return seen


def truth(seen: list[str]) -> Counter[str]:
    """How often each page was really seen, which a server never says."""
    return Counter(seen)
