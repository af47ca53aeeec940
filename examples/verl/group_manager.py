"""A reward manager of verl 0.9 for rewards that compare all responses to a question, as those of iVGR and CodeDance do.

verl asks for the reward of each response as soon as the response ends, in any of its reward workers. This manager sends
the responses of all workers to one Ray actor. The actor waits until it has all responses to a question. A question has
``extra_info.question_prompts`` prompts (default: 1), and verl samples ``rollout.n`` responses to each prompt. With 2
prompts and ``rollout.n=8``, for example, the actor waits for 16 responses. Then it calls the reward function once, with
lists as arguments, as verl's batch manager does. Set in verl's config:

    reward.reward_manager.source=importlib
    reward.reward_manager.name=GroupRewardManager
    reward.reward_manager.module.path=/…/examples/verl/group_manager.py
"""

import asyncio
import json
from typing import Any

import ray
from verl import DataProto
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase
from verl.trainer.ppo.reward import get_custom_reward_fn

ACTOR = "groundtrace_groups"
WAIT_S = 7200.0
"""The number of seconds that a response waits for the other responses to its question. If one of them does not arrive,
the training ends with an error."""


class Groups:
    """Collects the responses to each question, and scores all responses to a question in one call.

    ``config`` is verl's config. ``wait_s`` is the number of seconds that a response waits for the other responses.
    Raises ValueError if the config names no reward function.
    """

    def __init__(self, config: Any, wait_s: float = WAIT_S) -> None:
        self._score = get_custom_reward_fn(config)
        if self._score is None:
            raise ValueError(
                "reward.custom_reward_function.path is not set: set it to the path of the reward function's Python file"
            )
        self._rollouts = config.actor_rollout_ref.rollout.n
        self._wait_s = wait_s
        self._waiting: dict[tuple[str, str], list[tuple[dict[str, Any], asyncio.Future[dict[str, float]]]]] = {}

    async def score(self, response: dict[str, Any]) -> dict[str, float]:
        """Return the scores of a response by name, after all responses to its question have arrived.

        ``response`` holds the arguments of a reward function of verl, by name. Raises TimeoutError if a response to the
        question does not arrive in time, and any error that the reward function raises.
        """
        reference = json.loads(response["ground_truth"])
        question = (reference["run"], reference["id"])
        size = self._rollouts * (response["extra_info"].get("question_prompts") or 1)
        group = self._waiting.setdefault(question, [])
        own: asyncio.Future[dict[str, float]] = asyncio.get_running_loop().create_future()
        group.append((response, own))
        if len(group) == size:
            await self._settle(self._waiting.pop(question))
        try:
            return await asyncio.wait_for(own, self._wait_s)
        except TimeoutError as error:
            raise TimeoutError(
                f"only {len(group)} of {size} responses to the question {question[1]} arrived within {self._wait_s:g} "
                "s: set data.shuffle=false, so that all rows of a question are in one batch"
            ) from error

    async def _settle(self, group: list[tuple[dict[str, Any], asyncio.Future[dict[str, float]]]]) -> None:
        names = {"data_source": "data_sources", "solution_str": "solution_strs", "ground_truth": "ground_truths"}
        names["extra_info"] = "extra_infos"
        given = {plural: [response[name] for response, _ in group] for name, plural in names.items()}
        try:
            found = await asyncio.to_thread(self._score, **given)
        except Exception as error:  # each response of the group raises it
            for _, waiting in group:
                if not waiting.done():
                    waiting.set_exception(error)
            return
        for (_, waiting), score in zip(group, found, strict=True):
            if not waiting.done():
                waiting.set_result(score)


class GroupRewardManager(RewardManagerBase):
    """Passes responses from one of verl's reward workers to a Ray actor, and returns the rewards to verl.

    A reward worker is a process of verl that gets single responses. All reward workers use the same actor
    (:class:`Groups`), which scores all responses to a question in one call.
    """

    def __init__(
        self,
        config: Any,
        tokenizer: Any,
        compute_score: Any,
        reward_router_address: str | None = None,
        reward_model_tokenizer: Any = None,
    ) -> None:
        super().__init__(config, tokenizer, compute_score)
        options = {"name": ACTOR, "get_if_exists": True, "num_cpus": 0, "max_concurrency": 100_000}
        self._groups: Any = ray.remote(Groups).options(**options).remote(config)

    async def run_single(self, data: DataProto) -> dict[str, Any]:
        """Return the reward of a response under the key ``reward_score``, for verl.

        The key ``reward_extra_info`` holds all numbers that the reward function returned. ``data`` is a batch of verl;
        only its last sequence (prompt and response) is scored.
        """
        item = data[-1:][0]
        ids = item.batch["responses"]
        length = int(item.batch["attention_mask"][-ids.shape[-1] :].sum())
        extra = dict(item.non_tensor_batch.get("extra_info") or {})
        extra |= dict(item.non_tensor_batch.get("tool_extra_fields") or {})
        response = {
            "data_source": item.non_tensor_batch["data_source"],
            "solution_str": self.tokenizer.decode(ids[:length], skip_special_tokens=True),
            "ground_truth": item.non_tensor_batch["reward_model"]["ground_truth"],
            "extra_info": extra,
        }
        found = await self._groups.score.remote(response)
        return {"reward_score": found["score"], "reward_extra_info": dict(found)}
