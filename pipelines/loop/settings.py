"""Defines the config of ``beam loop``: a small TOML file that names the configs of the steps (curation, trainings,
evaluation) and holds changes to them.
"""

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt

from groundtrace.config.errors import ConfigError
from groundtrace.config.settings import given_values, settings, settings_from
from groundtrace.inference.settings import EndpointSettings

TINY = "tiny"
"""The value of ``--model`` for a small model of random weights, which the loop makes itself."""
TINY_DEFAULTS = Path(__file__).with_name("tiny.toml")
OWN_KEYS = ("kind", "model", "revision")
"""The settings of the trained model's endpoint that the loop sets itself. A user must not set them."""
Overrides = Annotated[Mapping[str, Any], "keys of this step's config and their values, in tables as in that config"]


@settings
class HeldOutSettings:
    """Holds the settings that choose the held-out questions. The evaluation asks them, and no step trains on them. A
    media group consists of the questions that share an image: either all or none of them are held out.
    """

    share: Annotated[float, Field(gt=0, lt=1), "the share of the questions to hold out"] = 0.1
    seed: Annotated[int, "the seed by which the media groups are chosen"] = 0


@settings
class CurateSettings:
    """Holds the config of the curation, i.e. of the run of the pipeline that makes the SFT rows.

    ``config`` is the path of the config file. ``set`` holds values that replace values of this file. After SFT, the
    pipeline runs a second time, from the same config, to measure the trained policy.
    """

    config: Annotated[str, "the config of `beam run`, relative to this file (empty: the embedded engine)"] = ""
    set: Overrides = field(default_factory=dict)


@settings
class TrainerConfigSettings:
    """Holds the trainer's config, which SFT, GRPO and the evaluation share, and the number of GPUs."""

    config: Annotated[
        str,
        "the path of a trainer's config, relative to this file, or the name of a bundled config; required, but with "
        "--model tiny the default is the bundled config tiny",
    ] = ""
    gpus: Annotated[PositiveInt, "the number of GPUs for SFT and GRPO"] = 1


@settings
class StepSettings:
    """Holds the changes to the config of one step of the loop, such as GRPO. They do not apply to the other steps."""

    set: Overrides = field(default_factory=dict)


@settings
class ServeSettings:
    """Holds the settings of the server for the model after SFT. The pipeline runs twice, before SFT and after it; this
    model is the policy of the second run.
    """

    kind: Annotated[
        Literal["vllm", "transformers_chat"] | None,
        "vllm: the run starts a server and stops it; transformers_chat: in the worker's process, for a small model; "
        "left out: transformers_chat for --model tiny, else vllm",
    ] = None
    endpoint: Annotated[Mapping[str, Any], "further settings of this endpoint, such as max_concurrency"] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        if own := next((name for name in OWN_KEYS if name in self.endpoint), ""):
            raise ValueError(f"endpoint has the key {own!r}, which `beam loop` sets itself: remove this key")
        settings_from(EndpointSettings, {**self.endpoint, "kind": self.kind or "vllm", "model": "MODEL"})


@settings
class LoopSettings:
    """Holds the config of ``beam loop``, which runs a pipeline twice: before SFT and after it.

    The second run measures the pass rates of the trained policy (the model after SFT). The config of the second run is
    the config of the first run with some changes. The endpoint of the role ``policy`` is the trained policy.
    ``attempt.k``, ``attempt.k_min`` and ``[difficulty]`` get the pipeline's defaults, and ``allow_embedded`` is True.
    If the recipe has the section ``[attempt]``, ``attempt.as_trained`` is True. If the recipe has the section
    ``[split]``, ``split.sft_ratio`` is 0. Finally, each value in ``rl.set`` replaces the value of its key. With
    ``--model tiny``, ``[attempt]`` and the endpoint have other defaults, for a CPU.
    """

    held_out: HeldOutSettings = field(default_factory=HeldOutSettings)
    curate: CurateSettings = field(default_factory=CurateSettings)
    trainer: TrainerConfigSettings = field(default_factory=TrainerConfigSettings)
    sft: StepSettings = field(default_factory=StepSettings)
    serve: ServeSettings = field(default_factory=ServeSettings)
    rl: StepSettings = field(default_factory=StepSettings)
    grpo: StepSettings = field(default_factory=StepSettings)
    eval: StepSettings = field(default_factory=StepSettings)


def defaults_of(model: str) -> LoopSettings:
    """Return the settings that apply to a loop where the user's configs have no value.

    ``model`` is the value of ``--model``. For the model ``tiny``, the bundled file ``tiny.toml`` holds the settings:
    the trainer's config, the server, and short attempts, which a CPU can make. Other models have no such settings.
    """
    return settings_from(LoopSettings, given_values(str(TINY_DEFAULTS) if model == TINY else None))


def load_loop(path: str | None, overrides: tuple[str, ...] = ()) -> LoopSettings:
    """Return the settings of a loop from its config file and the overrides of the command line.

    ``path`` is the path of the TOML file; None if there is no file. ``overrides`` are the values of ``--set``, each in
    the form ``a.b=c``. The config of a loop names other config files. A path in the file is relative to the file's
    folder; a path in an override is relative to the working directory. Raises :class:`ConfigError` for a file that is
    missing or cannot be read, an unknown key or an invalid value.
    """
    written, given = given_values(path), given_values(path, overrides)
    folder = Path(path or ".").parent
    for section in ("curate", "trainer"):
        named = _config_of(given, section)
        if named and named == _config_of(written, section) and (folder / named).is_file():
            given[section]["config"] = str(folder / named)
    loaded = settings_from(LoopSettings, given)
    if loaded.curate.config and not Path(loaded.curate.config).is_file():
        raise ConfigError(f"curate.config: there is no file {loaded.curate.config}: correct the path")
    return loaded


def _config_of(values: Mapping[str, Any], section: str) -> str:
    found = values.get(section)
    named = found.get("config") if isinstance(found, Mapping) else ""
    return named if isinstance(named, str) else ""
