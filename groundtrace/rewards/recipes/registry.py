"""The reward recipes, one a line. Adding one is its file in this package and its line here."""

from collections.abc import Mapping

from groundtrace.rewards.recipes.argos import Argos
from groundtrace.rewards.recipes.base import Recipe
from groundtrace.rewards.recipes.codedance import CodeDance
from groundtrace.rewards.recipes.ivgr import Ivgr
from groundtrace.rewards.recipes.rucl import Rucl
from groundtrace.rewards.recipes.sail_rl import SailRl
from groundtrace.schemas.config import ConfigError, build

RECIPES = {
    recipe.name: recipe
    for recipe in (
        Argos,
        SailRl,
        Ivgr,
        Rucl,
        CodeDance,
    )
}


def make_recipe(name: str, options: Mapping[str, object], where: str = "options") -> Recipe:
    """The recipe of this name with these settings, which stand in a config at ``where``.

    Raises ConfigError for a name that there is none of, and for options that do not fit its settings.
    """
    if name not in RECIPES:
        raise ConfigError(f"there is no reward recipe {name!r}; there are {', '.join(RECIPES)}")
    kind = RECIPES[name]
    settings = build(kind.Settings, options, where)
    try:
        return kind(settings)
    except ValueError as error:
        raise ConfigError(f"{where}.{error}") from error
