"""A packed batch against transformers' own forward pass of each sample by itself."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from groundtrace.trainer.collate import Batch, collate, micro_batches
from groundtrace.trainer.loss import sft_loss
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.policy import score
from groundtrace.trainer.sample import Sample

Samples = Callable[[VisionLanguageModel], list[Sample]]
Inputs = Callable[[Sample], dict[str, torch.Tensor]]


def _direct(model: Any, given: dict[str, torch.Tensor], sample: Sample, temperature: float = 1.0) -> torch.Tensor:
    """The targets' log-probabilities by a whole forward pass and a whole log-softmax."""
    logits = model(**given, use_cache=False).logits[0] / temperature
    places = sample.loss_mask.nonzero()[:, 0]
    return logits.log_softmax(dim=-1)[places - 1, sample.ids[places]]


def _grads(model: Any) -> dict[str, torch.Tensor | None]:
    found = {name: None if weight.grad is None else weight.grad.clone() for name, weight in model.named_parameters()}
    model.zero_grad()
    return found


def _same_grads(ours: dict[str, torch.Tensor | None], theirs: dict[str, torch.Tensor | None], tolerance: float) -> None:
    assert set(ours) == set(theirs)
    for name, expected in theirs.items():
        actual = ours[name]
        if expected is None or actual is None:
            assert expected is actual, name
        else:
            torch.testing.assert_close(actual, expected, rtol=1e-5, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}")
    assert any(grad is not None and grad.abs().max() > 1e-3 for grad in theirs.values())


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_packed_equals_unpacked(
    vlm: VisionLanguageModel, reference: Any, samples: Samples, inputs: Inputs, temperature: float
) -> None:
    batch = collate(vlm, samples(vlm))
    with torch.no_grad():
        packed = score(vlm, batch, temperature)
        for index, sample in enumerate(samples(vlm)):
            expected = _direct(reference, inputs(sample), sample, temperature)
            torch.testing.assert_close(packed.logprobs[batch.owner == index], expected, rtol=0, atol=1e-5)


def test_entropy_is_that_of_the_whole_distribution(
    vlm: VisionLanguageModel, reference: Any, sample: Callable[..., Sample], inputs: Inputs
) -> None:
    one = sample(vlm, "one")
    with torch.no_grad():
        entropy = score(vlm, collate(vlm, [one])).entropy
        rows = reference(**inputs(one)).logits[0, one.loss_mask.nonzero()[:, 0] - 1].log_softmax(dim=-1)
    torch.testing.assert_close(entropy, -(rows.exp() * rows).sum(dim=-1), rtol=0, atol=1e-5)


@pytest.mark.parametrize("changed", range(4))
def test_a_changed_token_stays_in_its_sample(vlm: VisionLanguageModel, samples: Samples, changed: int) -> None:
    before = samples(vlm)
    other = before[changed].ids.clone()
    other[1] = (other[1] + 1) % 200 + 7  # a token of the prompt, and no special one
    after = [replace(one, ids=other) if index == changed else one for index, one in enumerate(before)]
    batch = collate(vlm, before)
    with torch.no_grad():
        was, became = score(vlm, batch).logprobs, score(vlm, collate(vlm, after)).logprobs
    own = batch.owner == changed
    torch.testing.assert_close(became[~own], was[~own], rtol=0, atol=1e-6)
    assert (became[own] - was[own]).abs().max() > 1e-3


def _as_one_sequence(batch: Batch) -> Batch:
    """The same row with the inner ends forgotten: one sequence that sees all of itself."""
    length = len(batch.ids)
    return replace(batch, ends=torch.tensor([0, length], dtype=torch.int32), longest=length)


def test_without_the_ends_samples_would_see_each_other(vlm: VisionLanguageModel, samples: Samples) -> None:
    batch = collate(vlm, samples(vlm))
    with torch.no_grad():
        apart, together = score(vlm, batch).logprobs, score(vlm, _as_one_sequence(batch)).logprobs
    first = batch.owner == 0
    torch.testing.assert_close(apart[first], together[first], rtol=0, atol=1e-5)
    for later in range(1, 4):
        assert (apart - together)[batch.owner == later].abs().max() > 1e-3


def test_the_order_of_samples_changes_nothing(vlm: VisionLanguageModel, samples: Samples) -> None:
    forwards, backwards = collate(vlm, samples(vlm)), collate(vlm, samples(vlm)[::-1])
    with torch.no_grad():
        a, b = score(vlm, forwards).logprobs, score(vlm, backwards).logprobs
    for index in range(4):
        torch.testing.assert_close(a[forwards.owner == index], b[backwards.owner == 3 - index], rtol=0, atol=1e-5)


def _sft_grads(vlm: VisionLanguageModel, parts: list[list[Sample]]) -> tuple[float, dict[str, torch.Tensor | None]]:
    """The loss of one step in several forward passes, and its gradients."""
    denominator = sum(sample.targets for part in parts for sample in part)
    total = 0.0
    for part in parts:
        loss = sft_loss(score(vlm, collate(vlm, part)).logprobs, denominator)
        loss.backward()
        total += loss.item()
    return total, _grads(vlm.model)


def test_sft_loss_and_gradients_equal_transformers(
    vlm: VisionLanguageModel, reference: Any, sample: Callable[..., Sample], inputs: Inputs
) -> None:
    one = sample(vlm, "tool")
    direct = reference(**inputs(one), labels=one.ids.masked_fill(~one.loss_mask, -100)[None]).loss
    direct.backward()
    loss, grads = _sft_grads(vlm, [[one]])
    assert loss == pytest.approx(direct.item(), abs=1e-5)
    _same_grads(grads, _grads(reference), 1e-5)


def test_sft_loss_of_a_batch_equals_transformers_over_its_targets(
    vlm: VisionLanguageModel, reference: Any, samples: Samples, inputs: Inputs
) -> None:
    """transformers divides by the count that it is told, so its per-sample losses add up to the packed one."""
    count = sum(sample.targets for sample in samples(vlm))
    expected = 0.0
    for one in samples(vlm):
        labels = one.ids.masked_fill(~one.loss_mask, -100)[None]
        direct = reference(**inputs(one), labels=labels, num_items_in_batch=torch.tensor(count)).loss
        direct.backward()
        expected += direct.item()
    loss, grads = _sft_grads(vlm, [samples(vlm)])
    assert loss == pytest.approx(expected, abs=1e-5)
    _same_grads(grads, _grads(reference), 1e-5)


@pytest.mark.parametrize("tokens", [1, 80])
def test_accumulated_equals_one_large_batch(vlm: VisionLanguageModel, samples: Samples, tokens: int) -> None:
    parts = micro_batches(samples(vlm), tokens)
    assert len(parts) > 1
    large, expected = _sft_grads(vlm, [samples(vlm)])
    accumulated, grads = _sft_grads(vlm, parts)
    assert accumulated == pytest.approx(large, abs=1e-5)
    _same_grads(grads, expected, 1e-5)


def test_checkpointing_changes_no_gradient(load: Callable[..., VisionLanguageModel], samples: Samples) -> None:
    plain, saving = load("qwen3"), load("qwen3", gradient_checkpointing=True)
    expected_loss, expected = _sft_grads(plain, [samples(plain)])
    loss, grads = _sft_grads(saving, [samples(saving)])
    assert loss == pytest.approx(expected_loss, abs=1e-6)
    _same_grads(grads, expected, 1e-6)


@pytest.mark.parametrize(
    ("lengths", "tokens", "expected"),
    [
        ((3, 5, 4), 9, [[5, 4], [3]]),
        ((3, 5, 4), 12, [[5, 4, 3]]),
        ((3, 5, 4), 1, [[5], [4], [3]]),
        ((2, 2, 2, 2, 2), 4, [[2, 2], [2, 2], [2]]),
        ((7,), 3, [[7]]),
    ],
)
def test_micro_batches(lengths: tuple[int, ...], tokens: int, expected: list[list[int]]) -> None:
    empty = torch.zeros(0)
    made = [Sample(str(n), "", torch.zeros(n, dtype=torch.int64), empty, empty, (), ()) for n in lengths]
    assert [[len(sample) for sample in part] for part in micro_batches(made, tokens)] == expected


def test_a_sample_that_begins_with_a_target_is_refused(
    qwen3: VisionLanguageModel, sample: Callable[..., Sample]
) -> None:
    one = sample(qwen3, "text")
    with pytest.raises(ValueError, match="first token"):
        collate(qwen3, [replace(one, loss_mask=torch.ones_like(one.loss_mask))])
