"""Our tools in the rollout loops of verl and ms-swift themselves: scripted turns, and code that really runs."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from groundtrace.grading.responses.turns import TOOL, call_of
from groundtrace.sandbox import SandboxLost
from groundtrace.sandbox.session import Session
from tests.publishing.exports.loaders.conftest import Export
from tests.publishing.exports.made_runs import ROOT

pytestmark = pytest.mark.loaders

IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
END = "<|im_end|>\n"
CODES = ("x = input_image.width", "x += 1\n1/0", "display(input_image.crop((0, 0, 64, 64)))\nprint(x)")
SILENT = "[the code printed nothing and showed no image]"


def turns(*codes: str) -> list[str]:
    """A turn with each call, and the answer."""
    called = [f"<think>I look.</think>\n<tool_call>\n{call_of(code)}\n</tool_call><|im_end|>" for code in codes]
    return [*called, "<answer>1</answer><|im_end|>"]


class Engine:
    """The place of verl's inference server: says its turns one after the other, and keeps what it was given."""

    def __init__(self, tokenizer: Any, says: Sequence[str]) -> None:
        self.tokenizer, self.says = tokenizer, list(says)
        self.prompts: list[tuple[list[int], int]] = []
        self.said: list[list[int]] = []

    async def generate(self, prompt_ids: list[int], image_data: Any, **_: Any) -> Any:
        from verl.workers.rollout.replica import TokenOutput

        self.prompts.append((list(prompt_ids), len(image_data or ())))
        ids = self.tokenizer(self.says[len(self.said)], add_special_tokens=False).input_ids
        self.said.append(ids)
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids))


def tool_config(folder: Path, **config: Any) -> str:
    """verl's file with our tool, as the example has it but for these keys."""
    text = (ROOT / "examples/verl/tools.yaml").read_text("utf-8")
    for name, value in config.items():
        [line] = [line for line in text.splitlines() if line.strip().startswith(f"{name}:")]
        text = text.replace(line, f"{line.partition(':')[0]}: {value}")
    (folder / "tools.yaml").write_text(text, "utf-8")
    return str(folder / "tools.yaml")


def verl_loop(processor: Any, engine: Engine, tools: str) -> Any:
    """verl's own agent loop, with the tools that its registry makes of the file."""
    from omegaconf import OmegaConf
    from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap
    from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop
    from verl.tools.tool_registry import load_all_tools
    from verl.utils.dataset.rl_dataset import RLHFDataset

    of_turns = {"max_user_turns": 6, "max_assistant_turns": 6, "max_parallel_calls": 1, "format": "hermes"}
    of_turns |= {"max_tool_response_length": 4000, "tool_response_truncate_side": "middle"}
    rollout = {"multi_turn": of_turns, "prompt_length": 2048, "response_length": 4096, "full_determinism": False}
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}})
    return ToolAgentLoop(
        trainer_config=DictConfigWrap(config),
        server_manager=engine,
        tokenizer=processor.tokenizer,
        processor=processor,
        dataset_cls=RLHFDataset,
        data_config=DictConfigWrap(OmegaConf.create({})),
        hf_model_type="qwen3_vl",
        tools=ToolListWrap(load_all_tools(tools, None)),
    )


def rolled(folder: Path, processor: Any, says: Sequence[str], cache: Path, **config: Any) -> tuple[Any, Engine]:
    """The output of verl's loop for the exported row, and the engine."""
    from omegaconf import OmegaConf
    from verl.utils.dataset.rl_dataset import RLHFDataset

    options = {"max_prompt_length": 2048, "filter_overlong_prompts_workers": None, "cache_dir": str(cache)}
    rows = RLHFDataset(
        [str(folder / "rl.parquet")], processor.tokenizer, OmegaConf.create(options), processor=processor
    )
    engine = Engine(processor.tokenizer, says)

    async def run() -> Any:
        loop = verl_loop(processor, engine, tool_config(cache, **config))
        return await loop.run({"temperature": 1.0}, **rows[0])

    return asyncio.run(run()), engine


def test_verl_executes_each_call(called: Export, tool_processor: Any, tmp_path: Path) -> None:
    """State goes from call to call, a failed call leaves nothing, and the image that code shows comes back."""
    out, engine = rolled(called("verl"), tool_processor, turns(*CODES), tmp_path)
    tokenizer = tool_processor.tokenizer
    text = tokenizer.decode([t for t in out.response_ids if t != tokenizer.convert_tokens_to_ids("<|image_pad|>")])
    assert SILENT in text
    assert "ZeroDivisionError" in text
    assert "200" in text.rsplit("<tool_response>", 1)[1]
    assert [count for _, count in engine.prompts] == [1, 1, 1, 2]
    assert [image.size for image in out.multi_modal_data["images"]][1] == (64, 64)
    assert out.extra_fields["groundtrace_calls"] == ["silent", "error", "ok"]
    assert out.extra_fields["groundtrace_lost"] == ""


def test_verl_trains_on_what_the_policy_wrote(called: Export, tool_processor: Any, tmp_path: Path) -> None:
    out, engine = rolled(called("verl"), tool_processor, turns(*CODES), tmp_path)
    ours = [token for token, counts in zip(out.response_ids, out.response_mask, strict=True) if counts]
    assert ours == [token for ids in engine.said for token in ids]
    for (prompt, _), said, (following, _) in zip(engine.prompts, engine.said, engine.prompts[1:], strict=False):
        assert following[: len(prompt) + len(said)] == [*prompt, *said], "token in, token out"


def test_verl_is_shown_no_more_images_than_allowed(called: Export, tool_processor: Any, tmp_path: Path) -> None:
    codes = ("display(input_image)\ndisplay(input_image.rotate(90))", "display(input_image)")
    out, engine = rolled(called("verl"), tool_processor, turns(*codes), tmp_path, max_images=1)
    assert [count for _, count in engine.prompts] == [1, 2, 2]
    assert tool_processor.tokenizer.decode(out.response_ids).count("[image left out]") == 2


def test_a_lost_sandbox_is_told_to_the_reward(
    called: Export, tool_processor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(self: Session, code: str) -> Any:
        raise SandboxLost("the state of this trajectory is gone")

    monkeypatch.setattr(Session, "run", lost)
    out, _ = rolled(called("verl"), tool_processor, turns(*CODES), tmp_path)
    assert out.extra_fields["groundtrace_lost"] == "the state of this trajectory is gone"
    assert out.extra_fields["groundtrace_calls"] == ["lost"] * 3


def test_the_schema_is_that_of_the_rows(tmp_path: Path) -> None:
    from verl.tools.tool_registry import load_all_tools

    from groundtrace.grading.responses.turns import TOOL_SCHEMA

    [tool] = load_all_tools(tool_config(tmp_path), None)
    assert tool.name == TOOL
    assert tool.tool_schema.model_dump(exclude_unset=True, exclude_none=True) == TOOL_SCHEMA


class Says:
    """The place of ms-swift's engine: each response says these turns, as it encodes each request by its template."""

    def __init__(self, template: Any, says: Sequence[str]) -> None:
        self.template, self.says, self.turn = template, list(says), 0
        self.prompts: list[tuple[str, int]] = []

    def __call__(self, requests: Sequence[Any], config: Any) -> list[Any]:
        from swift.infer_engine.protocol import (
            ChatCompletionResponse,
            ChatCompletionResponseChoice,
            ChatMessage,
            RolloutOutput,
            UsageInfo,
        )

        found = []
        for request in requests:
            encoded = self.template.encode(request)
            text = self.template.tokenizer.decode(encoded["input_ids"])
            self.prompts.append((text, len(encoded["image_grid_thw"])))
            said = self.says[self.turn]
            ids = self.template.tokenizer.encode(f"{said}<|im_end|>", add_special_tokens=False)
            logprobs = {"content": [{"logprob": -0.5}] * len(ids)}
            message = ChatMessage("assistant", said)
            choice = ChatCompletionResponseChoice(0, message, "stop", logprobs, ids)
            found.append(RolloutOutput(response=ChatCompletionResponse("tiny", [choice], UsageInfo(1, 1, 2))))
        self.turn += 1
        return found


def swift_rolled(called: Export, model_folder: Path, says: Sequence[str]) -> tuple[Any, Says]:
    """The sample as swift trains on it, after its own loop with our scheduler, found by its name."""
    from swift.dataset import load_dataset
    from swift.infer_engine import RequestConfig
    from swift.model import get_processor
    from swift.rl_core.data import GRPOSample
    from swift.rollout import multi_turns, run_multi_turn
    from swift.template import get_template
    from swift.utils.utils import import_external_file

    import_external_file(str(ROOT / "groundtrace/publishing/tools/swift/__init__.py"))
    rows, _ = load_dataset([str(called("swift") / "rl.parquet")], strict=True, remove_unused_columns=False)
    template = get_template(get_processor(str(model_folder), model_type="qwen3_vl"), agent_template="hermes")
    template.set_mode("transformers")
    engine = Says(template, [turn.removesuffix("<|im_end|>") for turn in says])
    scheduler = multi_turns["groundtrace"](max_turns=6, tokenizer=template.tokenizer, template=template)
    sample = GRPOSample.from_row(dict(rows[0]))
    request = sample.to_infer_request(include_extra=True)
    config = RequestConfig()
    [output] = run_multi_turn([request], engine([request], config), scheduler, engine, config, max_turns=6)
    sample.apply_rollout_output(rollout_output=output)
    return sample, engine


def test_swift_executes_each_call(called: Export, model_folder: Path) -> None:
    sample, engine = swift_rolled(called, model_folder, turns(*CODES))
    results = [turn["content"] for turn in sample.messages if turn["role"] == "tool"]
    assert results[0] == SILENT
    assert "ZeroDivisionError" in results[1]
    assert results[2] == "200\n<image>"
    assert [count for _, count in engine.prompts] == [1, 1, 1, 2]
    assert "<tool_response>\n200\n<|vision_start|>" in engine.prompts[3][0]
    assert len(sample.images) == 2
    assert sample.rollout_infos["groundtrace_calls"] == ["silent", "error", "ok"]
    assert sample.rollout_infos["groundtrace_lost"] == ""


def test_swift_trains_on_what_the_policy_wrote(called: Export, model_folder: Path) -> None:
    says = turns(*CODES)
    sample, engine = swift_rolled(called, model_folder, says)
    tokenizer = engine.template.tokenizer
    assert sample.response_token_ids == [tokenizer.encode(each, add_special_tokens=False) for each in says]
    assert [*map(len, sample.rollout_logprobs)] == [*map(len, sample.response_token_ids)]


def test_swift_ends_a_response_without_a_call(called: Export, model_folder: Path) -> None:
    sample, _ = swift_rolled(called, model_folder, turns())
    assert [turn["role"] for turn in sample.messages] == ["user", "assistant"]
    assert sample.rollout_infos["groundtrace_calls"] == []
