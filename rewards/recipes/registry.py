"""The reward recipes, one a line. Adding one is its file in this package and its line here."""

from collections.abc import Mapping

from rewards.recipes.argos import Argos
from rewards.recipes.base import Recipe
from rewards.recipes.codedance import CodeDance
from rewards.recipes.ivgr import Ivgr
from rewards.recipes.rucl import Rucl
from rewards.recipes.sail_rl import SailRl
from schemas.config import ConfigError, build

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


def make_recipe(name: str, options: Mapping[str, object], section: str) -> Recipe:
    """The recipe of this name with these settings; ``section`` is where a config has its name and ``options``.

    Raises ConfigError for a name that there is none of, and for options that do not fit its settings.
    """
    kind = RECIPES.get(name)
    if kind is None:
        raise ConfigError(f"{section}.recipe: there is no recipe {name!r}; there are {', '.join(RECIPES)}")
    settings = build(kind.Settings, options, f"{section}.options.")
    try:
        return kind(settings)
    except ValueError as error:
        raise ConfigError(f"{section}.options.{error}") from error
