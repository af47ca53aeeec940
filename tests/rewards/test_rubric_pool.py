"""The default pool: twenty rubrics that a judge can be given, the last of which is kept apart."""

import re

from groundtrace.rewards.outcome_rubrics import asks_for_right_answer
from groundtrace.rewards.rubric_pool import default_pool
from groundtrace.rewards.rubrics import DEFAULT, RubricSettings, default_candidates


def test_twenty_rubrics_with_names_and_both_scores() -> None:
    pool = default_pool()
    assert len(pool) == len({rubric.id for rubric in pool}) == RubricSettings().max_rubrics == 20
    for rubric in pool:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", rubric.id)
        assert rubric.description.endswith(".")
        assert rubric.criteria.startswith("1 when")
        assert re.search(r"\b0 (when|for)", rubric.criteria), rubric.id


def test_only_the_last_one_asks_for_the_right_answer() -> None:
    assert [rubric.id for rubric in default_pool() if asks_for_right_answer(rubric)] == ["final_answer_correct"]
    candidates = default_candidates(20)
    assert len(candidates.rubrics) == 19
    assert [rubric.id for rubric in candidates.apart] == ["final_answer_correct"]
    assert candidates.pool == DEFAULT


def test_a_smaller_pool_is_its_beginning() -> None:
    assert default_candidates(3).rubrics == default_pool()[:3]
