"""The model families by name. A family's module is imported when the family is first looked up."""

import functools
from typing import TYPE_CHECKING

from groundtrace.inference.loading import is_path, load

if TYPE_CHECKING:
    from groundtrace.inference.families.base import Family

FAMILIES = {
    "claude": "groundtrace.inference.families.claude:CLAUDE",
    "claude-1568": "groundtrace.inference.families.claude:CLAUDE_1568",
    "gemini": "groundtrace.inference.families.gemini:GEMINI",
    "glm-v": "groundtrace.inference.families.glm_v:GLM_V",
    "internvl": "groundtrace.inference.families.internvl:INTERNVL",
    "molmo": "groundtrace.inference.families.molmo:MOLMO",
    "molmo2": "groundtrace.inference.families.molmo2:MOLMO2",
    "moondream": "groundtrace.inference.families.moondream:MOONDREAM",
    "plain": "groundtrace.inference.families.plain:PLAIN",
    "qwen2.5-vl": "groundtrace.inference.families.qwen25_vl:QWEN25_VL",
    "qwen3-vl": "groundtrace.inference.families.qwen3_vl:QWEN3_VL",
}
"""The families by name. A user's own family needs no entry: the config names its value as ``module:NAME``."""

DEFAULT = "plain"
"""The family of an endpoint that declares none."""


def check_family(name: str) -> None:
    """Raises ValueError if no family has this name."""
    if name not in FAMILIES and not is_path(name):
        known = ", ".join(sorted(FAMILIES))
        raise ValueError(f"must be one of {known}, or a family of your own as module:NAME, got {name!r}")


@functools.cache
def family_of(name: str) -> "Family":
    """The family of that name, or a user's own family named as ``module:NAME``. Raises ValueError."""
    from groundtrace.inference.families.base import Family

    check_family(name)
    try:
        family = load(FAMILIES.get(name, name))
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the family {name} cannot be imported ({error}): make it importable") from error
    if not isinstance(family, Family):
        raise ValueError(
            f"{name} must be a Family of groundtrace.inference.families.base, not a {type(family).__name__}"
        )
    return family


def trainable_families() -> dict[str, "Family"]:
    """The families that the trainer supports, by the ``model_type`` of their checkpoints."""
    return {kind: family for family in map(family_of, FAMILIES) for kind in family.trained_as}
