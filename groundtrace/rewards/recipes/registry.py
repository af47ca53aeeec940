"""Registers the reward recipes by name, so that a config can name one.

To add a recipe, put its file in this package and add a line to this module.
"""

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from groundtrace.config.errors import ConfigError, UnknownKeys
from groundtrace.config.settings import build
from groundtrace.schemas.registry import Registry, RegistryError

if TYPE_CHECKING:
    from groundtrace.rewards.recipes.base import Recipe

RECIPES: "Registry[type[Recipe]]" = Registry(
    "reward_recipes",
    "reward recipe",
    "groundtrace.rewards.recipes.base:Recipe",
    {
        "argos": "groundtrace.rewards.recipes.argos:Argos",
        "sail_rl": "groundtrace.rewards.recipes.sail_rl:SailRl",
        "ivgr": "groundtrace.rewards.recipes.ivgr:Ivgr",
        "rucl": "groundtrace.rewards.recipes.rucl:Rucl",
        "codedance": "groundtrace.rewards.recipes.codedance:CodeDance",
    },
    classes=True,
)


def complete_options(name: str, options: Mapping[str, object], where: str = "options") -> dict[str, Any]:
    """Return all settings of a reward recipe as plain values, such as numbers and dicts: those in ``options``, and the
    defaults of those that ``options`` does not name. Settings without a value (None) are left out.

    ``name`` is the name of the recipe, and ``where`` is the config key of ``options``, for error messages. Raises
    ConfigError in the same cases as :func:`make_recipe`.
    """
    made = make_recipe(name, options, where).settings
    return TypeAdapter(type(made)).dump_python(made, mode="json", exclude_none=True)


def make_recipe(name: str, options: Mapping[str, object], where: str = "options") -> "Recipe":
    """Return the reward recipe (which turns verdicts on responses into rewards) with the given name and settings.

    Args:
        name: a registered name, or ``module:NAME`` for a recipe in the user's own code.
        options: the settings of the recipe, by name.
        where: the config key of ``options``, which error messages contain.

    Raises:
        ConfigError: if there is no such recipe, if it cannot be loaded, or if a setting is invalid.
    """
    try:
        kind = RECIPES.named(name)
    except RegistryError as error:
        raise ConfigError(f"the reward recipe cannot be used: {where.removesuffix('options')}recipe {error}") from error
    settings = build(kind.Settings, options, where)
    if not _takes_one_argument(kind):
        raise ConfigError(
            f"the reward recipe {kind.__module__}:{kind.__qualname__} does not take its settings as its only argument: "
            f"make the class a dataclass with the field `settings: {kind.Settings.__name__}`"
        )
    try:
        return kind(settings)  # pyright: ignore[reportCallIssue]
    except UnknownKeys as error:
        raise error.within(where) from error
    except ValueError as error:
        raise ConfigError(f"{where}.{error}") from error


def _takes_one_argument(kind: type) -> bool:
    """Return whether the constructor of a class takes one positional argument. Constructors of protocols, such as
    Recipe, are placeholders and are not considered.
    """
    bases = [base for base in kind.__mro__ if "__init__" in vars(base) and not getattr(base, "_is_protocol", False)]
    if bases[0] is object:
        return False
    try:
        inspect.signature(vars(bases[0])["__init__"]).bind(None, None)
    except TypeError:
        return False
    return True
