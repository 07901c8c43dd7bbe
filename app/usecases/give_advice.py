"""Say which parameters suit what an operator has and wants. Spends nothing, reads nothing."""

from app.core.advice import Advice, Wish, advise
from app.usecases.context import Context


def give_advice(context: Context, wish: Wish) -> Advice:
    """Advice within what this server allows."""
    return advise(wish, context.max_k)
