"""Lists the settings of a training and of its reward for the page train.html.

Each setting has its value and its default. The lists also hold the model of each role of the reward, such as ``judge``.
They do not hold addresses and keys of endpoints (model servers), because users may send the page to other people.
"""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from groundtrace.config.config_file import read_config
from groundtrace.config.fields import default_of
from groundtrace.config.flat import flat_values
from groundtrace.config.reference import sections
from groundtrace.inference.settings import ROLES
from groundtrace.rewards.rows.settings import CONFIGS, RewardSettings
from groundtrace.trainer.settings import ModelSettings, TrainerSettings

SECTIONS = {
    "sft": ("model", "seed", "threads", "max_idle_steps", "batch", "sft", "validation", "log"),
    "grpo": (
        "model",
        "seed",
        "threads",
        "max_idle_steps",
        "batch",
        "grpo",
        "rollout",
        "environment",
        "validation",
        "log",
    ),
}
"""For each command of the trainer, the sections and settings of the config that the page shows."""
HIDDEN = ("rollout.base_url", "log.project", "environment.options")
"""Settings of these sections that the page does not show. The options of a user's environment may be secret."""
SINGLE = ("allow_embedded", "synthetic_sources", "wait_s")
"""The settings of :class:`RewardSettings` that the page shows unchanged."""


@dataclass(frozen=True)
class ShownSetting:
    """Holds one setting as the page shows it.

    Attributes:
        name: the key in the config, such as ``grpo.group_size``. A setting of the reward has its key in the section
            ``[reward]``, such as ``options.tau``.
        value: the value as text.
        default: the default as text; "" if there is none.
        bundled: the value in the bundled config (one that Groundtrace contains) that the user named, as text; None
            without such a config.
        meaning: one line on what the setting does; "" if there is none.
    """

    name: str
    value: str
    default: str
    meaning: str
    bundled: str | None = None

    @property
    def is_changed(self) -> bool:
        """Return whether the value differs from the bundled config, or, without such a config, from the default."""
        return self.value != (self.default if self.bundled is None else self.bundled)


@dataclass(frozen=True)
class ShownReward:
    """Holds the reward of a training as the page shows it.

    Attributes:
        recipe: the name of the recipe, which computes rewards from the verdicts of scorers.
        scorers: the names of the scorers (checks of a response) that the recipe may run.
        settings: the settings of the reward and of the recipe. Those that differ from their defaults are first.
    """

    recipe: str
    scorers: tuple[str, ...]
    settings: tuple[ShownSetting, ...]


def shown_training(settings: TrainerSettings, command: str, bundled: str = "") -> tuple[ShownSetting, ...]:
    """Return the settings of a training for the page. Those that the user changed are first.

    A setting counts as changed if it differs from the bundled config with the name ``bundled``. If ``bundled`` is "",
    it counts as changed if it differs from its default. ``command`` is the command of the trainer, ``sft`` or ``grpo``.
    The settings of the reward and those that only other commands use are left out.
    """
    names = SECTIONS[command]
    values = {name: each for name, each in to_jsonable_python(settings).items() if name in names}
    defaults = {"model": _defaults(ModelSettings), **_defaults(TrainerSettings)}
    default_of_key = {name: _text(each) for name, each in flat_values(defaults)}
    meanings = {
        f"{section.path}.{key.name}".removeprefix("."): key.meaning
        for section in sections(TrainerSettings)
        for key in section.keys
    }
    given = _given(bundled) if bundled else {}

    def shown(name: str, value: Any) -> ShownSetting:
        default = default_of_key.get(name, "")
        return ShownSetting(
            name, _text(value), default, meanings.get(name, ""), given.get(name, default) if bundled else None
        )

    return _changed_first(
        shown(name, each)
        for name, each in flat_values(values)
        if not f"{name}.".startswith(tuple(f"{each}." for each in HIDDEN))
    )


def shown_reward(reward: RewardSettings) -> ShownReward:
    """Return the recipe (the code that computes the reward), the scorers (checks) and the settings, for the page."""
    recipe = reward.make_recipe()
    defaults, meanings = dict(_values(RewardSettings(), _defaults(recipe.Settings))), _meanings(recipe.Settings)
    settings = [
        ShownSetting(name, value, defaults.get(name, ""), meanings.get(name, ""))
        for name, value in _values(reward, to_jsonable_python(recipe.settings))
    ]
    scorers = tuple(scorer.name for scorer in recipe.runs)
    return ShownReward(reward.recipe, scorers, _changed_first(settings))


def is_bundled(name: str) -> bool:
    """Return whether ``name`` is the name of a bundled config, i.e. of one that Groundtrace contains.

    ``name`` may come from a file of another person.
    """
    return name in {path.stem for path in CONFIGS.glob("*.toml")}


@functools.cache
def _given(bundled: str) -> dict[str, str]:
    """Return the values that a config of Groundtrace sets, or inherits from another config, as texts by dotted key.

    ``bundled`` is the name of this config.
    """
    values = read_config(str(CONFIGS / f"{bundled}.toml"), CONFIGS, TrainerSettings)
    return {name: _text(each) for name, each in flat_values(values)}


def _changed_first(settings: Iterable[ShownSetting]) -> tuple[ShownSetting, ...]:
    return tuple(sorted(settings, key=lambda each: not each.is_changed))


def _values(reward: RewardSettings, options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each key of the section ``[reward]`` with its value as text.

    ``options`` are the settings of the recipe (the code that computes the reward) as JSON data. The value of a model
    role, such as ``judge``, is the name of its model.
    """
    for name, value in flat_values(options, "options."):
        yield name, _text(value)
    for role, name in reward.roles.items():
        endpoint = reward.endpoints.get(name)
        yield f"roles.{role}", f"{endpoint.model} ({endpoint.kind})" if endpoint else "none"
    for name in SINGLE:
        yield name, _text(getattr(reward, name))


def _defaults(cls: type) -> dict[str, Any]:
    """Return the defaults of a settings class as JSON data. A field that the user must set is left out."""
    found = {field.name: default_of(field) for field in dataclasses.fields(cls)}
    return {name: to_jsonable_python(default) for name, default in found.items() if default is not dataclasses.MISSING}


def _meanings(options: type) -> dict[str, str]:
    """Return the meaning of each key of the section ``[reward]``.

    ``options`` is the settings class of the recipe, which is the code that computes the reward.

    If the user may choose the name of a key, as in ``options.weights.spatial``, the meaning is that of its section.
    """
    found = {f"roles.{role}": "the model and the kind of its endpoint" for role in ROLES}
    for section in (*sections(RewardSettings), *sections(options, "options")):
        found |= {f"{section.path}.{key.name}".removeprefix("."): key.meaning for key in section.keys}
        entries = (entry for entry in section.entries if entry.path == section.path != "roles")
        found |= {f"{entry.path}.{key.name}": section.text for entry in entries for key in entry.keys}
    return found


def _text(value: Any) -> str:
    """Return a value of the config as text for the page."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ("; " if any(isinstance(each, dict) for each in value) else ", ").join(map(_text, value)) or "none"
    return "none" if value is None or value == "" else str(value)
