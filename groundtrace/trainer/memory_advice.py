"""Refuses a training step that does not fit into memory, and names the changes of the config that would help.

The memory is estimated again with each change. The message names a change only if the change lowers the estimate by
more than the share :data:`MIN_GAIN`. For each change that it names, the message contains the new estimate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from groundtrace.schemas.errors import UserError
from groundtrace.trainer.memory import GIB, AverageRow, Estimate, estimate, fullest_row, server_bytes
from groundtrace.trainer.outline import outline_of
from groundtrace.trainer.settings import TrainerSettings

GPUS = (2, 4, 8)
RANK = 32
"""The rank of the adapters that the message proposes, as in the bundled configs for one GPU."""
MIN_PIXELS = 256 * 256
"""The smallest ``model.max_pixels`` that the message proposes. The processors of some models refuse smaller images."""
MIN_GAIN = 0.02
"""A change is named only if it lowers the estimate by more than this share."""

_ELSEWHERE = "with the server on other GPUs"
SMALLER = "Use a smaller model"
"""The advice if no change of the config helps."""


class DoesNotFit(UserError):
    """Raised if a training step needs more memory than is available.

    The message lists the parts of the estimate, and the changes of the config that lower it.
    """


@dataclass(frozen=True)
class Change:
    """Describes a change of a config.

    Attributes:
        text: the change as the user makes it, such as ``batch.tokens=8192``.
        make: the function that returns the changed settings.
        gpus: the number of GPUs after the change; 0 if the change leaves the number of GPUs as it is.
    """

    text: str
    make: Callable[[TrainerSettings], TrainerSettings]
    gpus: int = 0


@dataclass(frozen=True)
class Step:
    """Describes the training step whose memory is estimated.

    Attributes:
        model: the model before it is sharded, or an outline of it (:func:`groundtrace.trainer.outline.outline_of`).
        settings: the settings of the training.
        rows: the average size of the training rows; None for the longest rows that the settings allow.
        is_grpo: True for GRPO, and False for SFT.
        gpus: the number of GPUs.
    """

    model: Any
    settings: TrainerSettings
    rows: AverageRow | None
    is_grpo: bool = False
    gpus: int = 1

    def estimate(self) -> Estimate:
        """Return the memory that the step needs on each GPU."""
        return estimate(self.model, self.settings, self._rows(), self.is_grpo, self.gpus)

    def changed(self, changes: Sequence[Change]) -> "Step":
        """Return a copy of this step with the given changes of the settings and of the number of GPUs."""
        settings = reduce(lambda before, change: change.make(before), changes, self.settings)
        gpus = max([self.gpus, *(change.gpus for change in changes)])
        is_same = _trained(settings) == _trained(self.settings)
        return replace(self, model=self.model if is_same else outline_of(settings.model), settings=settings, gpus=gpus)

    def _rows(self) -> AverageRow:
        if self.rows is None:
            return fullest_row(self.model, self.settings, self.is_grpo)
        if self.settings.model.max_pixels is None:
            return self.rows
        tower = self.model.config.vision_config
        patches = min(self.rows.patches, self.rows.images * self.settings.model.max_pixels / tower.patch_size**2)
        tokens = self.rows.tokens - (self.rows.patches - patches) / tower.spatial_merge_size**2
        return replace(self.rows, tokens=tokens, patches=patches)


def _trained(settings: TrainerSettings) -> tuple[int, bool]:
    """Return the settings that decide which weights exist (LoRA rank) and which are trained (freeze_vision).

    If a change of the config changes one of these settings, a new outline of the model (the shapes of its weights
    without values) is made (:meth:`Step.changed`).
    """
    return settings.model.lora_rank, settings.model.freeze_vision


def refuse_if_too_large(step: Step, available: int) -> None:
    """Raise DoesNotFit if a training step needs more memory than is available.

    ``available`` is the memory of one GPU in bytes.
    """
    found = step.estimate()
    if found.total <= available:
        return
    sums = " + ".join(f"{_gib(size)} for {name}" for name, size in found.parts if size)
    raise DoesNotFit(
        f"a training step needs {_gib(found.total)} of memory ({sums}), but {_gib(available)} are available. "
        f"{advice(step, found.total, available)}"
    )


def advice(step: Step, needed: int, available: int, is_last: bool = False) -> str:
    """Return sentences for the user: which changes of the config lower the memory of a step, and to which size.

    ``needed`` is the memory in bytes that the step needs without a change, and ``available`` is the memory of one GPU
    in bytes. A change is named if it lowers the memory by more than the share :data:`MIN_GAIN`. If no change does so,
    the result is :data:`SMALLER`.

    The sentences list the changes that are enough alone, and those that are not, each with the new memory. If no change
    is enough alone, the sentences also state the memory that the step needs with all these changes together. If this
    memory is still too large, there are two cases:

    - If ``is_last`` is False, the sentences name further changes to make in addition to the first ones.
    - If ``is_last`` is True, the sentences recommend a smaller model.
    """
    best = [_best(step, changes, available) for changes in _changes(step) if changes]
    helpful = [(change, total) for change, total in best if total < (1 - MIN_GAIN) * needed]
    if not helpful:
        return SMALLER
    enough = [f"{change.text} ({_gib(total)})" for change, total in helpful if total <= available]
    others = [f"{change.text} ({_gib(total)})" for change, total in helpful if total > available]
    sentences = [f"Each of these changes is enough: {', '.join(enough)}."] if enough else []
    sentences += [f"Each of these alone is not enough: {', '.join(others)}."] if others else []
    if not enough:
        after = step.changed([change for change, _ in helpful])
        total = after.estimate().total
        sentences += [f"All of them together need {_gib(total)}."] if len(others) > 1 else []
        if total > available:
            more = SMALLER if is_last else advice(after, total, available, True)
            if more == SMALLER:
                return " ".join([*sentences, "Even then the step does not fit: use a smaller model"])
            return " ".join([*sentences, "In addition to these changes:", more])
    return " ".join([*sentences, "Or use a smaller model"])


def _best(step: Step, changes: Sequence[Change], available: int) -> tuple[Change, int]:
    """Return the first change with which the step fits into memory, and the memory that the step then needs.

    If the step fits with none of ``changes``, the last change is returned with its memory. ``available`` is the memory
    of one GPU. All sizes are in bytes.
    """
    for change in changes:
        total = step.changed([change]).estimate().total
        if total <= available:
            break
    return change, total


def _changes(step: Step) -> list[list[Change]]:
    """Return the possible changes of a step's config, as lists of alternatives.

    Each list holds the changes of one setting or of related settings, from the smallest to the largest change. A list
    is empty if its settings cannot be changed further.
    """
    settings, model = step.settings, step.settings.model
    trained = [] if model.freeze_vision else [_of("model", freeze_vision=True)]
    found = [
        _of_batch(step),
        [_of("model", max_pixels=size) for size in _halves(_pixels(step), MIN_PIXELS)],
        [] if model.gradient_checkpointing else [_of("model", gradient_checkpointing=True)],
        [] if model.lora_rank else [*trained, _of("model", lora_rank=RANK)],
    ]
    if server_bytes(settings, step.is_grpo):
        found.append([replace(_of("machine", server_gib=0.0), text=f"machine.server_gib=0 {_ELSEWHERE}")])
    if step.is_grpo:
        found.append([_of("environment", max_images=n) for n in _halves(settings.environment.max_images, 0)])
    if step.is_grpo and settings.rollout.kind == "transformers":
        fewer = [_of("rollout", prompts_at_once=n) for n in _halves(settings.rollout.prompts_at_once, 1)]
        found.append([*fewer, replace(_of("rollout", kind="vllm"), text=f"rollout.kind=vllm {_ELSEWHERE}")])
    if not settings.validation.is_on:  # which needs a single process
        found.append([Change(f"{n} GPUs", lambda before: before, n) for n in GPUS if n > step.gpus])
    return found


def _of_batch(step: Step) -> list[Change]:
    batch = step.settings.batch
    if batch.tokens > batch.max_tokens:
        return [_of("batch", tokens=n) for n in _halves(batch.tokens, batch.max_tokens)]
    half = batch.tokens // 2
    if half <= (step.settings.rollout.max_new_tokens if step.is_grpo else 2):
        return []
    both = _of("batch", max_tokens=half, tokens=half)
    return [replace(both, text=f"{both.text}, which leaves longer rows out")]


def _pixels(step: Step) -> int:
    """Return a number of pixels; half of it, a quarter and so on are proposed as values of ``model.max_pixels``.

    If ``model.max_pixels`` is set, the result is its present value. Otherwise, the result is the size of an average
    image of the training rows. If the rows have no images, or their number of images is unknown, the result is the size
    of the largest image that the environment returns. If this size is unknown, too, the result is 0.
    """
    if step.settings.model.max_pixels is not None:
        return step.settings.model.max_pixels
    if step.rows is not None and step.rows.images:
        return round(step.rows.patches / step.rows.images * step.model.config.vision_config.patch_size**2)
    return step.settings.environment.make().max_image_pixels() or 0


def _halves(value: int, least: int) -> list[int]:
    """Return ``value`` divided by 2, 4, 8 and so on, rounded down. The last number in the list is ``least``.

    The list does not go below ``least``. It is empty if ``value`` is not larger than ``least``.
    """
    found = []
    while value > least:
        value = max(value // 2, least)
        found.append(value)
    return found


def _of(section: str, **values: Any) -> Change:
    """Return the change of the config that sets keys of ``section``; ``values`` maps each key to its new value."""
    text = " and ".join(f"{section}.{key}={str(value).lower()}" for key, value in values.items())
    return Change(text, lambda before: replace(before, **{section: replace(getattr(before, section), **values)}))


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"
