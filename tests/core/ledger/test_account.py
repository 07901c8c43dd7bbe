"""What would still fit, found without many calibrations."""

from fractions import Fraction

import pytest

from app.core.ledger import account
from app.core.ledger.account import Account, exhausted, payments
from app.core.ledger.accountants import ACCOUNTANTS, Price
from app.core.ledger.budget import Budget, Cost
from app.core.planner import Family, Offer, Question, choose


def _offer(epsilon: str, k: int = 64, mechanism: str = "gshm", delta: str = "1e-6") -> Offer:
    family: Family = "stream" if mechanism == "pmg" else "compact"
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    question = Question(family=family, k=k, max_contributions=1, sources=1, universe_size=None, cost=cost, beta=0.05)
    return choose(question, mechanism)


def _account(name: str, accountant: str, epsilon: str, paid: int = 0) -> Account:
    total = Budget.granted(epsilon=epsilon, delta="1e-3")
    chosen = ACCOUNTANTS[accountant]
    spent = Price(paid, 0)
    return Account(name, chosen, total, spent, chosen.limit(total).minus(spent))


@pytest.mark.parametrize("k", [1, 64, 4096])
@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "3"])
def test_what_fits_of_gaussian_noise_fits_and_a_thousandth_more_does_not(k: int, epsilon: str) -> None:
    accounts = [_account("a", "zcdp", epsilon)]
    refusal = exhausted(accounts, _offer("12", k))
    fits = refusal.largest["epsilon"]
    assert accounts[0].covers(_offer(fits, k))
    assert not accounts[0].covers(_offer(f"{float(fits) * 1.002:.9f}", k))
    assert (refusal.blocking, refusal.requested["epsilon"]) == (["a"], "12")


@pytest.mark.parametrize("left", ["0.3", "0.6", "0.9", "2"])
def test_a_ledger_that_counts_epsilon_is_not_passed_either(left: str) -> None:
    accounts = [_account("z", "zcdp", "0.5"), _account("b", "basic", left)]
    fits = exhausted(accounts, _offer("12")).largest["epsilon"]
    alone = exhausted(accounts[:1], _offer("12")).largest["epsilon"]
    assert all(each.covers(_offer(fits)) for each in accounts)
    assert float(fits) == pytest.approx(min(float(left), float(alone)), rel=2e-3)
    assert fits == left or float(left) > float(alone)


def test_nothing_fits_where_nothing_is_left() -> None:
    total = ACCOUNTANTS["zcdp"].limit(Budget.granted(epsilon="1", delta="1e-3"))
    for paid in (total.main, total.main - 1):
        found = exhausted([_account("a", "zcdp", "1", paid)], _offer("1"))
        assert float(found.largest["epsilon"]) < 1e-5


def test_a_release_that_enters_by_its_epsilon_is_solved_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "choose", None)  # nothing is searched
    refusal = exhausted([_account("b", "basic", "0.25"), _account("a", "zcdp", "6")], _offer("1", mechanism="pmg"))
    assert refusal.largest["epsilon"] == "0.25"
    assert [each["ledger"] for each in refusal.remaining] == ["a", "b"]
    assert refusal.blocking == ["b"]


@pytest.mark.parametrize("delta", ["1e-12", "1e-6", "1e-3", "0.3"])
def test_few_calibrations_are_searched_and_none_for_another_epsilon(
    monkeypatch: pytest.MonkeyPatch, delta: str
) -> None:
    account._largest_gaussian.cache_clear()
    tried: list[int] = []
    plain = account._rho

    def noted(question: Question, mechanism: str, epsilon_units: int) -> Fraction | None:
        tried.append(epsilon_units)
        return plain(question, mechanism, epsilon_units)

    monkeypatch.setattr(account, "_rho", noted)
    total, left = Budget.granted(epsilon="1", delta="0.9"), Price(10**13, 10**18)
    accounts = [Account("a", ACCOUNTANTS["zcdp"], total, Price(0, 0), left)]
    first = exhausted(accounts, _offer("10", delta=delta))
    assert 1 < len(tried) <= 12
    assert float(first.largest["epsilon"]) >= 0.1414  # which fits by ε²/2, however much ρ the noise itself has
    del tried[:]
    assert exhausted(accounts, _offer("11", delta=delta)).largest["epsilon"] == first.largest["epsilon"]
    assert tried == []
    account._largest_gaussian.cache_clear()


@pytest.mark.parametrize("accountant", ["basic", "zcdp"])
def test_a_ledger_that_has_paid_stands_where_it_said_it_would(accountant: str) -> None:
    before, offer = _account("a", accountant, "6"), _offer("1", mechanism="pmg")
    after = before.after(offer)
    assert after.left.plus(after.paid) == before.left.plus(before.paid)
    assert after.paid.minus(before.paid) == before.price(offer)
    assert after.how_many(offer) == before.how_many(offer) - 1
    assert after.remaining() == after.total.minus(after.spent())
    assert before.payment(offer).remaining == after.remaining().as_strings()


def test_payments_are_in_the_order_of_names_and_tell_rho_where_it_is_counted() -> None:
    paid = payments([_account("z", "zcdp", "6"), _account("b", "basic", "6")], _offer("1", mechanism="pmg"))
    assert [(each.ledger, each.charged) for each in paid] == [
        ("b", {"epsilon": "1", "delta": "1e-6"}),
        ("z", {"epsilon": "1", "delta": "1e-6", "rho": "0.5"}),
    ]


def test_a_total_must_cover_what_is_spent() -> None:
    spent = _account("a", "basic", "6").after(_offer("1", mechanism="pmg"))
    assert spent.allows(Budget.granted(epsilon="1", delta="1e-6"))
    assert not spent.allows(Budget.granted(epsilon="0.999999999", delta="1e-6"))
    assert not spent.allows(Budget.granted(epsilon="1", delta="1e-7"))
