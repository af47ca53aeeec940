"""Samples responses, and scores the responses to a question while responses to other questions are still sampled.

A judge model may take longer to score a response than the policy (the model in training) takes to write it. So the
scoring does not wait until all responses of a training step are complete.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace

from groundtrace.inference.runtime import runtime
from groundtrace.rewards.rows.reward import PreparedRow, Reward, Scored
from groundtrace.rewards.rows.row import together
from groundtrace.trainer.episodes import roll_out
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.row_sampler import Drawn
from groundtrace.trainer.sample import Rollout
from groundtrace.trainer.sampler import Sampler
from groundtrace.trainer.settings import TrainerSettings


def sample_and_score(
    vlm: VisionLanguageModel,
    sampler: Sampler,
    reward: Reward,
    settings: TrainerSettings,
    asked: Sequence[Drawn],
    scored_as: Sequence[Drawn],
    n: int,
    seed: int,
) -> list[tuple[list[Rollout], list[Scored]]]:
    """Sample ``n`` complete responses to each prompt; return them with their scores, in the order of the prompts.

    ``asked`` and ``scored_as`` hold one pair (row, prompt as tokens) for each prompt, in the same order. ``sampler``
    samples responses of the model ``vlm`` to the prompts in ``asked``, with the random seed ``seed``. ``reward`` then
    scores these responses as if they answered the rows in ``scored_as``. ``asked`` and ``scored_as`` differ, for
    example, if the prompts in ``asked`` show crops (cut-out image regions), which the rows in ``scored_as`` do not
    have.

    A question may have several prompts: one that requests reasoning with boxes, and one that requests words only. The
    responses to all prompts of a question are scored together, as soon as all of them are complete.

    Raises JudgesDown if a model server does not answer a request of the reward, SamplerError if responses cannot be
    sampled, and UnusableRow if an image of a row cannot be decoded.
    """
    rows = [row for row, _ in scored_as]
    ready = [reward.ready(row) for row in rows]
    part_of = {index: tuple(part) for part in together(rows) for index in part}
    sampled: dict[int, list[Rollout]] = {}
    scores: dict[tuple[int, ...], Future[list[list[Scored]]]] = {}

    def take_group(index: int, rollouts: list[Rollout]) -> None:
        sampled[index] = rollouts
        part = part_of[index]
        if all(each in sampled for each in part):
            work = score_group(reward, vlm, [ready[each] for each in part], [sampled[each] for each in part])
            scores[part] = runtime().submit(work)

    try:
        rollouts = roll_out(vlm, sampler, settings, asked, n, seed, take_group)
        found = [
            (index, each) for part, scored in scores.items() for index, each in zip(part, scored.result(), strict=True)
        ]
    finally:
        for scored in scores.values():
            scored.cancel()
    return list(zip(rollouts, (each for _, each in sorted(found, key=lambda pair: pair[0])), strict=True))


async def score_group(
    reward: Reward, vlm: VisionLanguageModel, rows: Sequence[PreparedRow], rollouts: Sequence[Sequence[Rollout]]
) -> list[list[Scored]]:
    """Score the responses to all prompts of one question, and return a list of scores for each prompt.

    A question may have several prompts: one that requests reasoning with boxes, and one that requests words only.
    ``rows`` holds the row of each prompt, and ``rollouts`` holds the responses to each prompt. ``vlm`` is the model
    that wrote the responses. A lost response gets no score: its reward is None. A response is lost if its environment
    failed, e.g. the sandbox that executes its code. The other responses are scored as if the lost ones did not exist.
    Raises JudgesDown if a model server does not answer a request of the reward. This coroutine must run on the event
    loop of :mod:`groundtrace.inference.runtime`.
    """
    texts = [[vlm.text_of(each.ids) if each.text is None else each.text for each in group] for group in rollouts]
    kept = [[place for place, each in enumerate(group) if not each.lost] for group in rollouts]
    asked = [index for index, places in enumerate(kept) if places]
    part = [
        replace(
            rows[index].with_responses([texts[index][place] for place in kept[index]], vlm.speech),
            trajectories=tuple(rollouts[index][place].trajectory for place in kept[index]),
        )
        for index in asked
    ]
    found = [[Scored(None, None, text, ()) for text in group] for group in texts]
    for index, own in zip(asked, await reward.scored(part) if part else [], strict=True):
        for place, each in zip(kept[index], own, strict=True):
            found[index][place] = each
    return found
