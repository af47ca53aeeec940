"""Parts of a summary: which settings give room to the replies that were cut off, and what was spent."""

from pathlib import Path

import pytest

from groundtrace.inference.flow.notes import Paid
from groundtrace.pipelines.running.account.counts import RunCounts, ledger
from groundtrace.pipelines.running.account.summary import budget_figures, truncated_replies
from groundtrace.pipelines.running.plan.budget import RunBudget
from groundtrace.pipelines.running.plan.plan import Plan, RunArguments, make_plan
from groundtrace.publishing.figures import truncations
from groundtrace.schemas.run_summary import BudgetFigures, Counts, RunSummary, TruncatedReplies

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="module")
def plan() -> Plan:
    arguments = RunArguments(str(ROOT / "pipelines/grounded_cot.py"), str(ROOT / "data/sample"), "runs/none")
    return make_plan(arguments)


@pytest.mark.parametrize(
    ("role", "stage", "max_tokens", "settings"),
    [
        ("policy", "attempt", 2048, ("attempt.max_tokens", "endpoints.coarse.max_tokens_limit")),
        # the endpoint's limit was reached: the stage's own budget is smaller
        ("policy", "attempt", 8192, ("endpoints.coarse.max_tokens_limit",)),
        ("teacher", "trace", 6144, ("trace.max_tokens", "endpoints.colour.max_tokens_limit")),
        # a proposal has to be read: it was asked for again with more
        ("teacher", "propose", 16384, ("endpoints.colour.max_tokens_limit",)),
        # a stage whose section has no such key
        ("judge", "verify", 16384, ("endpoints.colour.max_tokens_limit",)),
        ("detector", "verify", 16384, ("endpoints.edges.max_tokens_limit",)),
    ],
)
def test_the_settings_that_help(role: str, stage: str, max_tokens: int, settings: tuple[str, ...], plan: Plan) -> None:
    told = truncated_replies({(role, stage): (8, 2, max_tokens)}, plan)
    assert told == {role: {stage: TruncatedReplies(8, 2, max_tokens, settings)}}


def test_what_is_said_of_them_and_kept() -> None:
    cut = {"policy": {"attempt": TruncatedReplies(1, 1, 64, ("attempt.max_tokens", "endpoints.p.max_tokens_limit"))}}
    summary = RunSummary("r", "in", Counts(1, 0, 0, {}), {}, {}, {}, {}, "now", 1.0, "rev", "sha", False, truncated=cut)
    assert truncations(summary) == [
        "truncated: 1 of 1 reply of the policy in attempt, asked for with up to 64 tokens: raise attempt.max_tokens "
        "or endpoints.p.max_tokens_limit, or the server's own limit if lower"
    ]
    assert RunSummary.from_fields(summary.to_fields()) == summary


def test_what_was_spent() -> None:
    paid = [Paid("1", "policy", 1, 0, 0, 1.5), Paid("2", "teacher", 1, 70, 9, 0.25, tokens_reasoning=5)]
    figures = RunCounts(Counts(9, 0, 0, {"attempt": {"budget": 3, "low": 2}, "verify": {"budget": 1}}), refused=True)
    said = BudgetFigures(usd=2.0, tokens=None, spent_usd=1.75, spent_tokens=79, used_up=True, left=4)
    assert budget_figures(RunBudget(usd=2.0), ledger({}, paid), figures) == said


def test_a_bounded_run_that_paid_nothing_spent_a_number_of_dollars() -> None:
    found = budget_figures(RunBudget(usd=2.0), {}, RunCounts(Counts(1, 0, 0, {})))
    assert isinstance(found.spent_usd, float)
