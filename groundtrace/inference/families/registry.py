"""Registers the model families by name. A family consists of models that write coordinates in the same way. The module
of a family is imported when the family is used for the first time.
"""

from typing import TYPE_CHECKING

from groundtrace.schemas.registry import Registry

if TYPE_CHECKING:
    from groundtrace.inference.families.base import Family

FAMILIES: "Registry[Family]" = Registry(
    "families",
    "family",
    "groundtrace.inference.families.base:Family",
    {
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
    },
)

DEFAULT = "plain"
"""The family of an endpoint whose settings name no family."""


def trainable_families() -> "dict[str, Family]":
    """Return the families whose models the trainer can train. The keys are the types (``model_type``) of their
    checkpoints, e.g. "qwen3_vl".
    """
    return {kind: family for family in FAMILIES.values() for kind in family.trained_as}
