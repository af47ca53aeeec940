"""The reward of SAIL-RL by hand (Eq. 1 and §4.5), from the text of a response to its number."""

import json

import pytest

from groundtrace.config.settings import build
from groundtrace.rewards.case import Context
from groundtrace.rewards.complexity import COMPLEXITY
from groundtrace.rewards.locating import ServedRoles
from groundtrace.rewards.recipes.base import Memory
from groundtrace.rewards.recipes.sail_rl import SailRl, SailRlSettings
from groundtrace.rewards.scorers.thinking import ThinkingSettings

JUDGED = ServedRoles(frozenset({"judge"}))
THINKS = "<judge>Reasoning is needed.</judge><think>one, two</think>\\boxed{{{}}}"
DIRECT = "<judge>This is a simple question.</judge><think></think>\\boxed{{{}}}"
PAPER, SUM = SailRl(SailRlSettings()), SailRl(SailRlSettings("additive"))
FIELDS = ("sound", "true_to_sources", "supported")
THINK, ANSWER_DIRECTLY = (json.dumps({"reason": "", "decision": decision}) for decision in ("think", "direct"))


def says(*values: bool) -> list[str]:
    """The judge's replies for a response that thinks: what it decides, and the three aspects."""
    return [THINK, *(json.dumps({"reason": "", field: value}) for field, value in zip(FIELDS, values, strict=True))]


CASES = [
    # 0.9 * 1 * 1 * 1 + 0.1
    ("all right", THINKS.format(2), "complex", says(True, True, True), 1.0),
    # 0.9 * 1 * 2/3 * 1 + 0.1
    ("one aspect of three wrong", THINKS.format(2), "complex", says(True, False, True), 0.7),
    ("no aspect right", THINKS.format(2), "complex", says(False, False, False), 0.1),
    # the product is 0 whatever the rest is worth: the judge is not asked
    ("a wrong answer", THINKS.format(3), "complex", [], 0.1),
    ("a wrong direct answer", DIRECT.format(3), "simple", [], 0.1),
    ("no judge section", "<think>so</think><answer>2</answer>", "complex", [], 0.0),
    # nor about the thinking
    ("thinking about a simple question", THINKS.format(2), "simple", [THINK], 0.1),
    ("a lucky guess", DIRECT.format(2), "complex", [ANSWER_DIRECTLY], 0.1),
    # 0.9 * 1 * 1 * 1 + 0.1: a right direct answer has no thinking to judge
    ("a right direct answer", DIRECT.format(2), "simple", [ANSWER_DIRECTLY], 1.0),
    (
        "a right direct answer, its thinking blank",
        DIRECT.replace("<think>", "<think>\n\n").format(2),
        "simple",
        [ANSWER_DIRECTLY],
        1.0,
    ),
    # it chose to think and did not: the form is as asked, the thinking is worth 0
    ("no thinking after all", THINKS.replace("one, two", "").format(2), "complex", [THINK], 0.1),
    # and the reverse
    ("thinking after all", THINKS.format(2), "simple", [ANSWER_DIRECTLY], 0.1),
    # R_format is 0, and the product pays
    (
        "an answer section",
        THINKS.replace("\\boxed{{{}}}", "<answer>{}</answer>").format(2),
        "complex",
        says(True, True, True),
        0.9,
    ),
    (
        "a box in an answer section",
        THINKS.replace("\\boxed{{{}}}", "<answer>\\boxed{{{}}}</answer>").format(2),
        "complex",
        says(True, True, True),
        0.9,
    ),
    (
        "a point",
        THINKS.replace("one,", '<points x1="1" y1="1" alt="dog">dog</points>').format(2),
        "complex",
        says(True, True, True),
        0.9,
    ),
    (
        "a box",
        THINKS.replace("one,", '<box alt="dog">[1,1,9,9]</box>').format(2),
        "complex",
        says(True, True, True),
        0.9,
    ),
    (
        "coordinates in words",
        THINKS.replace("one,", "one at x = 120, y = 40,").format(2),
        "complex",
        says(True, True, True),
        0.9,
    ),
    ("no think section", DIRECT.replace("<think></think>", "").format(2), "simple", [ANSWER_DIRECTLY], 0.9),
    (
        "the answer in the judge section",
        DIRECT.replace("question.", "question, the answer is 2.").format(2),
        "simple",
        [ANSWER_DIRECTLY],
        0.9,
    ),
    (
        "reasoning behind the thought",
        DIRECT.replace("\\boxed", "Two, since I see one and one. \\boxed").format(2),
        "simple",
        [ANSWER_DIRECTLY],
        0.9,
    ),
    (
        "another answer behind the thought",
        DIRECT.replace("\\boxed", "The answer is 3. \\boxed").format(2),
        "simple",
        [ANSWER_DIRECTLY],
        0.9,
    ),
    # nobody knows whether it was right to think
    ("no label", THINKS.format(2), None, says(True, True, True)[1:], None),
    # what the judge failed on makes the product unknown
    ("a judge that fails once", THINKS.format(2), "complex", [*says(True, True, False)[:3], "?"], None),
    ("a judge that fails", THINKS.format(2), "complex", [THINK, "?", "?", "?"], None),
    ("an unread decision", THINKS.format(2), "complex", ["?", *says(True, True, True)[1:]], None),
]


@pytest.mark.parametrize(
    ("text", "complexity", "judge", "reward"), [row[1:] for row in CASES], ids=[r[0] for r in CASES]
)
def test_sail_rl_eq1_by_hand(run, scripted, case, text, complexity, judge, reward) -> None:
    caller = scripted(judge=list(judge))
    given = case(text, caller, JUDGED, context=Context().with_added(COMPLEXITY, complexity))
    (earned,) = run(PAPER.score([given], Memory()))
    assert earned.reward == (None if reward is None else pytest.approx(reward))
    assert [verdict.name for verdict in earned.verdicts] == ["outcome", "format", "judging", "thinking"]
    assert len(caller.asked) == len(judge)


@pytest.mark.parametrize(
    ("text", "complexity", "judge", "reward"),
    [
        # (1 + 2/3 + 1) / 3
        (THINKS.format(2), "complex", says(True, False, True), 8 / 9),
        # (0 + 1 + 1) / 3: what the product forbids, the sum pays for
        (THINKS.format(2), "simple", says(True, True, True), 2 / 3),
        (THINKS.format(3), "complex", says(True, True, False), (1 + 2 / 3 + 0) / 3),
        # (1 + 0 + 0) / 3: leaving the thinking out does not pay
        (DIRECT.format(3), "simple", [ANSWER_DIRECTLY], 1 / 3),
        (THINKS.format(2), "complex", [THINK, "?", *says(True, True, True)[2:]], None),
        (THINKS.format(2), "complex", ["?", *says(True, True, True)[1:]], None),
    ],
)
def test_sail_rl_section45_additive_by_hand(run, scripted, case, text, complexity, judge, reward) -> None:
    given = case(text, scripted(judge=judge), JUDGED, context=Context().with_added(COMPLEXITY, complexity))
    (earned,) = run(SUM.score([given], Memory()))
    assert earned.reward == (None if reward is None else pytest.approx(reward))


def test_without_a_judge_the_thinking_is_unscored(run, scripted, case) -> None:
    given = case(THINKS.format(2), scripted(), context=Context().with_added(COMPLEXITY, "complex"))
    (earned,) = run(PAPER.score([given], Memory()))
    assert (earned.reward, earned.verdicts[-1].reason) == (None, "no judge is configured")


def test_the_settings_of_a_config() -> None:
    assert build(SailRlSettings, {"cascading": {"alpha": 0.5}}).cascading.alpha == 0.5
    with pytest.raises(ValueError, match="form must be 'cascading' or 'additive', got 'sum'"):
        SailRlSettings("sum")


@pytest.mark.parametrize(
    ("decision", "text", "complexity", "judge", "reward"),
    [
        # Always-thinking: a simple question counts as complex
        ("always", THINKS.format(2), "simple", says(True, True, True), 1.0),
        ("always", DIRECT.format(2), "simple", [ANSWER_DIRECTLY], 0.1),
        # Never-thinking
        ("never", DIRECT.format(2), "complex", [ANSWER_DIRECTLY], 1.0),
        ("never", THINKS.format(2), "complex", [THINK], 0.1),
        # Judge-w/o-reward: the decision is not judged, and a right direct answer has no thinking to judge
        ("free", THINKS.format(2), "simple", says(True, False, True)[1:], 0.7),
        ("free", DIRECT.format(2), "complex", [], 1.0),
        ("free", DIRECT.format(3), "complex", [], 0.1),
    ],
)
def test_sail_rl_table5_strategies(run, scripted, case, decision, text, complexity, judge, reward) -> None:
    caller = scripted(judge=list(judge))
    given = case(text, caller, JUDGED, context=Context().with_added(COMPLEXITY, complexity))
    (earned,) = run(SailRl(SailRlSettings(decision=decision)).score([given], Memory()))
    assert earned.reward == pytest.approx(reward)
    assert len(caller.asked) == len(judge)
    assert ("judging" in [verdict.name for verdict in earned.verdicts]) == (decision != "free")


def test_the_sum_without_the_decision(run, scripted, case) -> None:
    """(2/3 + 1) / 2: thinking and outcome have equal weights."""
    free = SailRl(SailRlSettings("additive", decision="free"))
    given = case(THINKS.format(2), scripted(judge=says(True, False, True)[1:]), JUDGED)
    assert run(free.score([given], Memory()))[0].reward == pytest.approx(5 / 6)


def test_the_settings_of_the_thinking_reach_the_judge(run, scripted, case) -> None:
    """0.9 * (2 * 1 + 1 * 0.5) / 3 + 0.1, with one aspect left out."""
    thinking = ThinkingSettings(logic=2.0, grounding=1.0, consistency=0.0, signal="continuous")
    recipe = SailRl(SailRlSettings(thinking=thinking))
    replies = [THINK, *(json.dumps({"reason": "", "score": score}) for score in (1.0, 0.5))]
    context = Context().with_added(COMPLEXITY, "complex")
    (earned,) = run(recipe.score([case(THINKS.format(2), scripted(judge=replies), JUDGED, context=context)], Memory()))
    assert earned.reward == pytest.approx(0.9 * 2.5 / 3 + 0.1)
    prompts = [prompt for scorer in recipe.runs for asks in scorer.asks for prompt in asks.prompts]
    assert {"score_logic.v1", "score_grounding.v1"} <= set(prompts)
    assert not {"score_think_consistency.v1", "judge_logic.v2"} & set(prompts)
