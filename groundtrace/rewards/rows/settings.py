"""Defines the section ``reward`` of a config, which our own trainer and other trainers use."""

from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from groundtrace.config.settings import PartName, settings
from groundtrace.embedded.roles import embedded_endpoints, embedded_roles
from groundtrace.inference.endpoint import COORDINATE_ROLES, check_access, is_embedded, is_real
from groundtrace.inference.settings import EndpointSettings, Role
from groundtrace.rewards.recipes.base import Recipe
from groundtrace.rewards.recipes.registry import RECIPES, complete_options, make_recipe

CONFIGS = Path(__file__).parents[2] / "trainer" / "configs"
"""The folder of bundled configs with the papers' hyperparameters, one for each reward."""


@settings
class RewardSettings:
    """Holds the settings of the reward, which scores the responses of a policy in training.

    ``recipe`` is one of :data:`groundtrace.rewards.recipes.registry.RECIPES`, and ``options`` holds its settings.

    The recipe ``argos`` checks whether the points of a response are on the objects that they name. A detector finds
    these objects. There are two exceptions: in synthetic images, and for labels that the detector does not know, a
    pointer (a model that points at objects) and a segmenter find them. Without a judge, ``argos`` ignores the
    reasoning. Without a judge, a free-text answer is unscored if the rules for answers cannot grade it.
    """

    RENAMED: ClassVar[Mapping[str, str]] = {"gate": "options"}
    OPTIONS_OF: ClassVar[Mapping[str, str]] = {"options": "recipe"}

    recipe: Annotated[str, PartName(RECIPES), "how verdicts become a reward"] = "argos"
    options: Annotated[Mapping[str, Any], "the recipe's own settings"] = field(default_factory=dict)
    endpoints: Annotated[Mapping[str, EndpointSettings], "the models, by names that you choose"] = field(
        default_factory=embedded_endpoints
    )
    roles: Annotated[Mapping[Role, str], "the endpoint of each role (empty: the role is not used)"] = field(
        default_factory=lambda: {role: embedded_roles()[role] for role in ("detector", "segmenter")}
    )
    allow_embedded: Annotated[bool, "allow the embedded engine as the segmenter beside a real detector or pointer"] = (
        False
    )
    synthetic_sources: Annotated[
        tuple[str, ...], "sources of charts, maps and similar images, whose objects the pointer finds, not the detector"
    ] = ()
    wait_s: Annotated[
        float, "how long requests to unreachable judges are retried before the training stops cleanly"
    ] = 600.0

    def __post_init__(self) -> None:
        check_access(self.endpoints, self.played)
        segmenter = self.played.get("segmenter")
        seeing = [
            role for role in COORDINATE_ROLES if role in self.played and is_real(self.endpoints[self.played[role]])
        ]
        if segmenter and seeing and is_embedded(self.endpoints[segmenter]) and not self.allow_embedded:
            raise ValueError(
                "roles.segmenter is the embedded engine, which finds drawn shapes but nothing in photographs, "
                f"although roles.{seeing[0]} is "
                'a real model: set roles.segmenter to a real model, or to "" (boxes then replace masks), or allow '
                "this combination with allow_embedded = true"
            )
        self.make_recipe()

    @property
    def played(self) -> dict[str, str]:
        """Return the model roles, such as judge, that have an endpoint: a dict from the role to its endpoint's name."""
        return {role: name for role, name in self.roles.items() if name}

    def make_recipe(self) -> Recipe:
        """Return the recipe (which turns verdicts on responses into rewards) that the settings name, with its options.

        Raises ConfigError if there is no such recipe, or if an option is invalid.
        """
        return make_recipe(self.recipe, self.options, "reward.options")

    def complete(self) -> "RewardSettings":
        """Return the same settings with all options of the recipe, including those that keep their defaults."""
        return replace(self, options=complete_options(self.recipe, self.options, "reward.options"))


def config_file(named: str) -> str:
    """Return the path of a config, given by its path or by the name of a bundled config.

    ``named`` is the path of a file, or a name in :data:`CONFIGS` without ``.toml``. If both exist, the file is used. If
    neither exists, ``named`` is returned unchanged. A folder at the path ``named`` is ignored.
    """
    bundled, own = CONFIGS / f"{named}.toml", Path(named)
    return str(bundled) if (not own.exists() or own.is_dir()) and bundled.is_file() else named


def bundled_name(named: str | None) -> str:
    """Return the name of the bundled config that ``--config`` names, such as ``tiny``; "" if it names another file.

    ``named`` is the value of ``--config``; None if it is left out.
    """
    path = Path(config_file(named)) if named else Path()
    return path.stem if path.parent == CONFIGS else ""
