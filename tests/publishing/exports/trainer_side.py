"""A trainer's own call of its reward, in a process that has the trainer's packages and none of ours.

Usage: trainer_side.py TRAINER CLIENT ITEMS, each line of the standard input a call: how long it may take, in seconds.
ITEMS is a file of JSON: pairs of a row's reference and a response. A call is answered by a line that begins with
``CALL`` and holds JSON: the rewards as the trainer got them, or what the client raised.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Items = list[tuple[str, str]]
Call = Callable[[], list[Any]]


class Bytes:
    """The place of a tokenizer, of which the reward managers ask nothing but the text of ids."""

    def decode(self, ids: Any, skip_special_tokens: bool) -> str:
        return bytes(int(each) for each in ids).decode()


def verl(client: str, items: Items) -> Call:
    """Its reward loop's manager, with the reward as the config names it."""
    import torch
    from omegaconf import OmegaConf
    from verl import DataProto
    from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager
    from verl.trainer.ppo.reward import get_custom_reward_fn

    named = {"path": client, "name": "compute_score", "reward_kwargs": {"request_timeout_s": 2.0}}
    config = OmegaConf.create({"reward": {"custom_reward_function": named}})
    tokenizer: Any = Bytes()
    manager = NaiveRewardManager(config, tokenizer, get_custom_reward_fn(config))

    def data(reference: str, text: str) -> DataProto:
        ids = torch.tensor([[*text.encode(), 0]])
        mask = torch.tensor([[1] * (ids.shape[1] - 1) + [0]])
        columns = {"data_source": ["nlvr"], "reward_model": [{"ground_truth": reference}], "extra_info": [{}]}
        tensors = {"responses": ids, "attention_mask": mask}
        return DataProto.from_dict(tensors=tensors, non_tensors=dict(columns))

    async def all_of() -> list[float]:
        found = await asyncio.gather(*(manager.run_single(data(*item)) for item in items))
        return [each["reward_score"] for each in found]

    return lambda: manager.loop.run_until_complete(all_of())


def swift(client: str, items: Items) -> Call:
    """Its plug-in, found by its name, and the function that hands the rows over."""
    import torch
    from swift.rewards import orms
    from swift.rl_core.data import GRPOSample
    from swift.rl_core.grpo_algorithm import compute_rewards_per_func
    from swift.utils.utils import import_external_file

    import_external_file(client)
    reward, seen = orms["groundtrace"](args=None), []

    def recorded(completions: list[str], **columns: Any) -> list[float]:
        seen[:] = reward(completions, **columns)  # as they were before swift's tensor of 32 bits
        return seen

    asked = {"role": "user", "content": "How many?"}

    def call() -> list[float]:
        samples = [
            GRPOSample(messages=[asked, {"role": "assistant", "content": text}], extra={"groundtrace": reference})
            for reference, text in items
        ]
        table = compute_rewards_per_func(samples, [recorded], [None], device=torch.device("cpu"))
        assert table.squeeze(1).tolist() == torch.tensor(seen).tolist()
        return seen

    return call


def trl(client: str, items: Items) -> Call:
    """Its trainer's method that calls reward functions; what it asks of the trainer beside them stands in for it."""
    import torch
    from accelerate import Accelerator
    from trl import GRPOTrainer

    sys.path.append(str(Path(client).parent))
    import groundtrace_client  # type: ignore[import-not-found]

    [reward] = groundtrace_client.reward_funcs()
    seen: list[Any] = []

    def verified(**given: Any) -> list[Any]:
        seen[:] = reward(**given)
        return seen

    logged: dict[str, float] = {}
    trainer = SimpleNamespace(
        accelerator=Accelerator(cpu=True),
        args=SimpleNamespace(report_to=[]),
        state=SimpleNamespace(global_step=0),
        reward_funcs=[verified],
        reward_func_names=["verified"],
        reward_processing_classes=[None],
        environments=None,
        _log_completion_extra=None,
        _log_metric=logged.__setitem__,
    )
    calls: Any = GRPOTrainer._calculate_rewards

    def call() -> list[Any]:
        inputs = [{"prompt": "How many?", "groundtrace": reference} for reference, _ in items]
        turns = [[{"role": "assistant", "content": text}] for _, text in items]
        table = calls(trainer, inputs, ["How many?"] * len(items), turns, [[1]] * len(items))
        expected = torch.tensor([float("nan") if each is None else each for each in seen])
        assert torch.equal(table.squeeze(1).nan_to_num(-9), expected.nan_to_num(-9))
        assert 0 <= logged["groundtrace/outcome"] <= 1
        return seen

    return call


def main(name: str, client: str, items: str) -> None:
    assert find_spec("groundtrace") is None, "groundtrace can be imported here"
    call = {"verl": verl, "swift": swift, "trl": trl}[name](client, json.loads(Path(items).read_text("utf-8")))
    print("CALL", json.dumps("ready"), flush=True)
    for line in sys.stdin:
        os.environ["GROUNDTRACE_REWARD_TIMEOUT_S"] = line.strip()
        try:
            found: Any = call()
        except RuntimeError as error:
            found = f"{type(error).__name__}: {error}"
        print("CALL", json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
