"""Maps the names of environments (e.g. ``sandbox``) to their classes.

An environment answers the turns of the model in training, e.g. with the results of its code.

To add an environment, put its module into this folder, and add a line to the dict in :data:`ENVIRONMENTS`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from groundtrace.config.errors import ConfigError
from groundtrace.config.settings import build
from groundtrace.schemas.registry import Registry, RegistryError

if TYPE_CHECKING:
    from groundtrace.trainer.environments.base import Environment

ENVIRONMENTS: "Registry[type[Environment]]" = Registry(
    "environments",
    "environment",
    "groundtrace.trainer.environments.base:Environment",
    {
        "single_turn": "groundtrace.trainer.environments.single_turn:SingleTurn",
        "sandbox": "groundtrace.trainer.environments.sandbox:SandboxEnvironment",
    },
    classes=True,
)


def make_environment(name: str, options: Mapping[str, object], where: str) -> "Environment":
    """Return a new environment, which answers the turns of one response, e.g. with the results of its code.

    ``name`` is the name of a kind of environment, e.g. ``sandbox``, or ``module:NAME`` for a class that a user wrote.
    ``options`` holds the values of the environment's settings. ``where`` is the config key of the options, for error
    messages. Raises ConfigError if the environment cannot be used, or if an option is not valid for this environment.
    """
    try:
        kind = ENVIRONMENTS.named(name)
    except RegistryError as error:
        raise ConfigError(f"the environment cannot be used: {where.removesuffix('options')}kind {error}") from error
    return kind(build(kind.Settings, options, where))  # pyright: ignore[reportCallIssue]
