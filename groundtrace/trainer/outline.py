"""Builds a model without the values of its weights, so that its memory can be estimated before it is downloaded."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForImageTextToText

from groundtrace.trainer.model import family_of, model_config, prepare
from groundtrace.trainer.settings import ModelSettings

ARCHITECTURES = Path(__file__).parent / "architectures.toml"


def outline_of(settings: ModelSettings) -> Any:
    """Return an outline of the model that the settings name: its weights have shapes and number types, but no values.

    The weights are on torch's meta device. The outline has the LoRA adapters, frozen parts and gradient checkpointing
    that the settings define. The shapes are read from ``architectures.toml`` if this file lists the model, else from
    the model's config. Raises ModelError if the config cannot be loaded, or if the model's family cannot be trained.
    """
    known = _architectures().get(settings.path)
    config = model_config(settings) if known is None else AutoConfig.for_model(**known)
    family_of(config, settings)
    auto: Any = AutoModelForImageTextToText
    with torch.device("meta"):
        model = auto.from_config(config, dtype=getattr(torch, settings.dtype), attn_implementation="sdpa")
        prepare(model, settings)
    return model


@cache
def _architectures() -> dict[str, Any]:
    return tomllib.loads(ARCHITECTURES.read_text("utf-8"))
