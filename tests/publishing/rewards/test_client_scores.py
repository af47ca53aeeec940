"""The client against a server of ours: our own trainer's scores, in every trainer's form."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groundtrace.publishing.rewards import groundtrace_client
from groundtrace.publishing.rewards.reference import COLUMN

from .serving import Served
from .test_plugins import check_same
from .worlds import WORLDS, Written

FORMS: dict[str, Callable[[Written], list[float]]] = {}


def form(call: Callable[[Written], list[float]]) -> Callable[[Written], list[float]]:
    FORMS[call.__name__] = call
    return call


@form
def verl(found: Written) -> list[float]:
    references, texts = zip(*found.items, strict=True)
    scores: Any = groundtrace_client.compute_score(solution_strs=list(texts), ground_truths=list(references))
    return [each["score"] for each in scores]


@form
def easyr1(found: Written) -> list[float]:
    inputs = [{"response": text, "response_length": 9, "ground_truth": reference} for reference, text in found.items]
    return [each["overall"] for each in groundtrace_client.compute_score_easyr1(inputs)]


@form
def trl(found: Written) -> list[Any]:
    references, texts = zip(*found.items, strict=True)
    completions = [[{"role": "assistant", "content": text}] for text in texts]
    [reward] = groundtrace_client.reward_funcs()
    return reward(completions=completions, **{COLUMN: list(references)})


@form
def swift(found: Written) -> list[float]:
    references, texts = zip(*found.items, strict=True)
    return groundtrace_client.Verified()(list(texts), trainer_state=None, **{COLUMN: list(references)})


@pytest.mark.parametrize("name", WORLDS)
def test_the_same_scores_as_in_our_own_trainer(
    name: str,
    write: Callable[..., Written],
    serve: Callable[..., Served],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each call is a step, from which RuCL learns and after which iVGR keeps what it found."""
    found = write(name)
    monkeypatch.setenv("GROUNDTRACE_REWARD_URL", f"http://127.0.0.1:{serve(found).port}")
    expected = found.by_trainer(tmp_path / "own", steps=len(FORMS))
    assert len({each.reward for each in expected[0]}) > 1, "rows that all earn the same show nothing"
    for call, step in zip(FORMS.values(), expected, strict=True):
        check_same(call(found), step)


@pytest.mark.parametrize("name", ["argos", "ivgr"])
def test_one_by_one_and_in_parts(
    name: str, write: Callable[..., Written], serve: Callable[..., Served], tmp_path: Path
) -> None:
    """Right where each response stands by itself, and refused where it does not."""
    found = write(name)
    given: dict[str, Any] = {"url": f"http://127.0.0.1:{serve(found).port}"}
    references, texts = zip(*found.items, strict=True)

    def in_parts() -> Any:
        return groundtrace_client.compute_score(solution_strs=texts, ground_truths=references, batch=5, **given)

    def one_by_one() -> list[Any]:
        return [
            groundtrace_client.compute_score("nlvr", text, reference, {}, **given) for reference, text in found.items
        ]

    if name == "argos":
        [expected] = found.by_trainer(tmp_path / "own")
        for call in (in_parts, one_by_one):
            check_same([each["score"] for each in call()], expected)
        return
    for call, said in ((in_parts, "see GROUNDTRACE_REWARD_BATCH"), (one_by_one, "compares all responses")):
        with pytest.raises(groundtrace_client.RewardRefused, match=said):
            call()


def test_openrlhf(write: Callable[..., Written], serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch) -> None:
    found = write("argos")
    monkeypatch.setenv("GROUNDTRACE_REWARD_URL", f"http://127.0.0.1:{serve(found).port}")
    reference, text = found.items[0]
    answer = groundtrace_client.reward_func([f"How many?{text}"], ["How many?"], [reference])
    assert answer == {"rewards": [1.0], "scores": [1.0], "extra_logs": {}}
