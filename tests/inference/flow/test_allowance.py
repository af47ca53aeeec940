"""A budget over all requests of one call: its parts, its tries again, second copies, and those that were given up."""

from typing import Any

import pytest

from groundtrace.inference.coordination.budget import Budget
from groundtrace.inference.coordination.spending import Cost
from groundtrace.inference.errors import NOT_SENT, BudgetUsedUp, CallError, Failure
from groundtrace.inference.flow.allowance import Allowance, allowed_by
from groundtrace.inference.flow.requests import Flow
from groundtrace.inference.request import Reply
from groundtrace.schemas.usage import Usage

from ..skipping import run
from .test_requests import Script, error, flow_settings, reply, request

EXPECTED = Cost(0.0, 1500)


def tokens_of(usage: Usage) -> Cost:
    return Cost(0.0, usage.tokens_in + usage.tokens_out)


def spent(send: Script, limit: int | None, n: int = 1, **settings: Any) -> tuple[Reply | Exception, Budget]:
    """How a call ends whose requests are expected to take 1,500 tokens each, and the budget after it."""

    async def main() -> tuple[Reply | Exception, Budget]:
        budget, flow = Budget(None, limit), Flow(flow_settings(**settings))
        allowance, taken = Allowance(budget, EXPECTED, tokens_of), NOT_SENT
        await allowance.begin()
        try:
            with allowed_by(allowance):
                taken = end = await flow.collect(request(n), send)
        except (CallError, BudgetUsedUp) as failed:
            taken, end = failed.partial, failed
        allowance.end(taken.usage, "p", len(taken.completions))
        assert not budget._requests, "nothing is left under way"
        return end, budget

    return run(main())


def test_tries_again_of_replies_that_are_paid_end_with_the_budget() -> None:
    paid = reply(tokens=1000)
    send = Script(*[error(Failure.EMPTY, partial=paid) for _ in range(9)])
    end, budget = spent(send, limit=10_000)
    assert isinstance(end, BudgetUsedUp)
    assert len(send.began_s) == 5 and budget.spent == Cost(0.0, 10_000)
    assert (end.partial.usage.requests, end.partial.usage.tokens_out, end.partial.usage.retries) == (5, 5000, 4)


def test_samples_that_are_asked_for_one_by_one_end_with_the_budget() -> None:
    send = Script(*[reply("a", tokens=700)] * 40)
    end, budget = spent(send, limit=10_000, n=40, samples_per_request=1)
    assert isinstance(end, BudgetUsedUp)
    assert len(end.partial.completions) == len(send.began_s) == 7
    assert budget.spent == Cost(0.0, 9_800)


def test_a_try_again_within_a_part_is_counted_once() -> None:
    paid = reply(tokens=750)
    send = Script(error(Failure.EMPTY, partial=paid), *[reply("a", tokens=750)] * 9)
    end, budget = spent(send, limit=10_000, n=9, samples_per_request=1)
    assert isinstance(end, BudgetUsedUp)
    assert len(send.began_s) == 6 and len(end.partial.completions) == 5
    assert budget.spent == Cost(0.0, 9_000)


def test_parts_that_wait_for_the_budget_get_what_the_others_did_not_use() -> None:
    send = Script(*[reply("a", tokens=50)] * 99)
    end, budget = spent(send, limit=1_600, n=2, samples_per_request=1)
    assert isinstance(end, Reply) and budget.spent == Cost(0.0, 200)


@pytest.mark.parametrize(("limit", "copies"), [(None, 2), (10_000, 2), (2000, 1)])
def test_a_second_copy_that_is_given_up_is_spent_as_expected(limit: int | None, copies: int) -> None:
    """Where there is no room for it, there is none."""
    send = Script(*[reply("a", tokens=500)] * 2, takes_s=1.0)
    end, budget = spent(send, limit, hedge_after_s=0.3)
    assert isinstance(end, Reply)
    assert len(send.began_s) == copies
    assert budget.spent == Cost(0.0, 1000 + (copies - 1) * EXPECTED.tokens)


def test_a_second_copy_that_is_answered_is_counted_once() -> None:
    send = Script(error(Failure.SERVER_ERROR, partial=NOT_SENT), reply("a", tokens=500), takes_s=1.0)
    end, budget = spent(send, 10_000, hedge_after_s=0.3)
    assert isinstance(end, Reply) and budget.spent == Cost(0.0, 1000)


def test_requests_that_were_not_waited_for_are_spent_as_expected() -> None:
    send = Script(takes_s=10.0)
    end, budget = spent(send, 6000, timeout_s=0.5)
    assert isinstance(end, BudgetUsedUp)
    assert len(send.began_s) == 4 and budget.spent == Cost(0.0, 6000)


def test_outside_of_a_call_there_is_no_allowance() -> None:
    send = Script(error(), reply("a"))
    assert run(Flow(flow_settings()).collect(request(), send)).completions[0].text == "a"
