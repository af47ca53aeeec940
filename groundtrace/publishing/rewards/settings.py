"""Defines the config of a reward for other trainers.

It has the reward settings of Groundtrace's own trainer, and settings about the trained model, the runs and the sandbox.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import FiniteFloat, NonNegativeInt, PositiveInt

from groundtrace.config.errors import ConfigError
from groundtrace.config.settings import PartName, Plugins, build, given_values, settings
from groundtrace.grading.responses.speech import Speech
from groundtrace.inference.families.registry import FAMILIES
from groundtrace.inference.settings import FrameName
from groundtrace.rewards.executed_turns import SandboxEnvironmentSettings
from groundtrace.rewards.rows.settings import CONFIGS, RewardSettings, config_file
from groundtrace.schemas.coordinates import QWEN25_IMAGE, CoordinateFrame, FitRule
from groundtrace.schemas.registry import check_parts, use_plugins
from groundtrace.schemas.text import say

VARIABLE = "GROUNDTRACE_REWARD"
"""The environment variable that names the config if no argument does."""

OTHER_SECTIONS = frozenset((
    "model", "seed", "threads", "max_idle_steps", "batch", "sft", "grpo", "rollout", "environment", "eval", "log",
    "machine",
    "validation",
))  # fmt: skip
"""Keys and sections of our trainer's config that a reward ignores."""


@settings
class SpeechSettings:
    """Holds settings about the way in which the trained model writes coordinates.

    Models of a family write coordinates alike, and each row names a family. A setting of this class is needed only if
    the trained model writes coordinates in another way than this family. The bundled trainer reads this information
    from the checkpoint's processor, but other trainers do not pass it to a reward. Set ``min_pixels`` and
    ``max_pixels`` if the training resizes images to other sizes than the family's default. This matters for Qwen2.5-VL,
    which writes pixels of the resized image.
    """

    family: Annotated[
        str,
        PartName(FAMILIES, or_empty=True),
        "the trained model's family (empty: the family that each row names)",
    ] = ""
    frame: Annotated[FrameName | None, "the coordinate frame of the model; left out: the frame of its family"] = None
    min_pixels: Annotated[
        PositiveInt | None, "smaller images are enlarged to this number of pixels; left out: the family's minimum"
    ] = None
    max_pixels: Annotated[
        PositiveInt | None, "larger images are shrunk to this number of pixels; left out: the family's maximum"
    ] = None

    def speech_of(self, named: str) -> Speech:
        """Return how the trained model writes coordinates: their scale (e.g. 0 to 1000) and their number of decimals.

        The result also states how images are resized before the model sees them.

        ``named`` is the model family that a row names. If the setting ``family`` is not empty, it is used instead. A
        name of the form ``module:NAME`` in a row counts as unknown: its module is never imported, because the row may
        come from another person. Raises ConfigError if ``min_pixels`` or ``max_pixels`` is set but the family does not
        use it, or if the minimum exceeds the maximum. Raises ValueError for an unknown family.
        """
        if not self.family and named not in FAMILIES:
            raise ValueError(
                f"the row names the unknown model family {named!r:.40}: set speech.family to the trained model's family"
            )
        family = FAMILIES.named(self.family) if self.family else FAMILIES[named]
        rule = family.resize or QWEN25_IMAGE
        bounds = {"min_area_px": self.min_pixels, "max_area_px": self.max_pixels}
        given = {name: value for name, value in bounds.items() if value is not None}
        if isinstance(rule, FitRule):
            if given:
                raise ConfigError(
                    f"speech.{min(given)[:3]}_pixels is set, but the model family {family.name} does not use it: "
                    "remove this key"
                )
        else:
            try:
                rule = replace(rule, **given)
            except ValueError as error:
                least, most = self.min_pixels or rule.min_area_px, self.max_pixels or rule.max_area_px
                raise ConfigError(
                    f"speech.min_pixels is {least}, but speech.max_pixels is only {most} (values that you do not set "
                    f"are those of the model family {family.name}): raise speech.max_pixels, or lower speech.min_pixels"
                ) from error
        return Speech(CoordinateFrame(self.frame or family.frame), family.decimals, rule)


@settings
class RemoteRewardSettings:
    """Holds the settings of a reward for another trainer.

    The section ``reward`` is the same as in the config of Groundtrace's own trainer. The section ``speech`` describes
    how the trained model writes coordinates. The section ``code`` holds the settings of the sandbox. The sandbox is
    needed if the reward depends on the results of code, because the code of responses is then executed again
    (:mod:`groundtrace.publishing.rewards.replay`).

    A complete config of Groundtrace's own trainer is accepted as well. :func:`load_reward_settings` describes which of
    the trainer's settings then replace missing settings of ``speech`` and ``code``.
    """

    reward: Annotated[RewardSettings, "what a response earns"] = field(default_factory=RewardSettings)
    speech: Annotated[SpeechSettings, "how the trained model writes coordinates"] = field(
        default_factory=SpeechSettings
    )
    runs: Annotated[
        Mapping[str, str],
        "the present folder of each run that was moved, by the name that the rows give to the run; runs without an "
        "entry are then not read (empty: the folders that the rows name)",
    ] = field(default_factory=dict)
    code: SandboxEnvironmentSettings = field(default_factory=SandboxEnvironmentSettings)
    folder: Annotated[
        str, "the folder of replies, media and memory-mapped rows (empty: groundtrace/reward in the user's cache)"
    ] = ""
    step_responses: Annotated[
        NonNegativeInt,
        "the number of responses in a training step; recipes such as rucl learn from these responses after each step "
        "(0: each call with a list of responses is a step)",
    ] = 0
    unscored: Annotated[
        FiniteFloat | None,
        "the reward of an unscored response, in trainers that require a number; left out: the training stops with an "
        "error",
    ] = None
    plugins: Plugins = field(default_factory=dict)

    @property
    def home(self) -> Path:
        """Return the folder for the cache of models' replies, for image files, and for memory-mapped rows."""
        if self.folder:
            return Path(self.folder)
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "groundtrace" / "reward"


def load_reward_settings(named: str = "") -> RemoteRewardSettings:
    """Load the config of a reward for another trainer (:func:`reward_settings`).

    ``named`` is a config file or the name of a bundled config, such as ``argos``. If it is "", the environment variable
    :data:`VARIABLE` names the config. If the variable is missing or empty, the defaults are used. Raises ConfigError
    for a config that cannot be used.
    """
    named = named or os.environ.get(VARIABLE, "")
    if not named:
        say(f"groundtrace: {VARIABLE} names no config, so argos with the embedded engine is used", file=sys.stderr)
        return RemoteRewardSettings()
    return reward_settings(given_values(config_file(named), (), CONFIGS, RemoteRewardSettings))


def reward_settings(values: Mapping[str, Any]) -> RemoteRewardSettings:
    """Return the settings of a reward from the values of its config, one nested mapping for each section.

    A config of Groundtrace's own trainer is accepted as well. In this config, a missing key ``speech.frame`` gets the
    value of ``model.frame``, and a missing key ``speech.max_pixels`` gets the value of ``model.max_pixels``. A missing
    section ``code`` gets the value of ``environment.options``, but only if the environment is ``sandbox``. Other
    sections that only the trainer needs are ignored. Raises ConfigError for a value that cannot be used.
    """
    use_plugins(values.get("plugins", {}), is_of_config=True)
    check_parts(values)
    model = values.get("model")
    speech = {name: model[name] for name in ("frame", "max_pixels") if name in model} if isinstance(model, dict) else {}
    kept = {name: value for name, value in values.items() if name not in OTHER_SECTIONS}
    if speech and isinstance(kept.setdefault("speech", {}), dict):
        kept["speech"] = speech | kept["speech"]
    environment = values.get("environment")
    if isinstance(environment, dict) and environment.get("kind") == "sandbox" and "options" in environment:
        kept.setdefault("code", environment["options"])
    return build(RemoteRewardSettings, kept)
