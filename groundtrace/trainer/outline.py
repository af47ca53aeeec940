"""Builds a model without the values of its weights, so that its memory can be estimated before it is downloaded."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from groundtrace.inference.model_files import reading
from groundtrace.trainer.model import family_of, prepare
from groundtrace.trainer.model_path import HubUnreachable, ModelError, model_config
from groundtrace.trainer.model_sizes import outlined
from groundtrace.trainer.settings import ModelSettings

ARCHITECTURES = Path(__file__).parent / "architectures.toml"


def outline_of(settings: ModelSettings) -> Any:
    """Return an outline of a model: its weights have shapes and number types, but no values.

    ``settings`` names the model. The weights are on torch's meta device. The outline has the LoRA adapters, frozen
    parts and gradient checkpointing that the settings define. If ``architectures.toml`` lists the model, the shapes are
    read from there. Otherwise they are read from the model's ``config.json``, in a local folder or in the Hugging Face
    Hub. Raises ModelError if ``config.json`` cannot be loaded, or if the model's family cannot be trained.
    """
    known = _architectures().get(settings.path)
    config = _config(settings) if known is None else AutoConfig.for_model(**known)
    family_of(config, settings)
    with reading(settings.path, sizes_from(settings)):
        model = outlined(config, getattr(torch, settings.dtype))
    with torch.device("meta"):
        prepare(model, settings)
    return model


def sizes_from(settings: ModelSettings) -> str:
    """Return a text for the user: the name of the file from which :func:`outline_of` reads the sizes of the model."""
    if settings.path in _architectures():
        return ARCHITECTURES.name
    return "its config.json" if Path(settings.path).is_dir() else "its config.json in the Hub"


def _config(settings: ModelSettings) -> Any:
    try:
        return model_config(settings)
    except HubUnreachable as error:
        known = ", ".join(_architectures())
        raise ModelError(
            f"{error}. To estimate the memory without the Hub, put the model's config.json into a folder and set "
            f"model.path to this folder, or set model.path to one of these models: {known}"
        ) from error


@cache
def _architectures() -> dict[str, Any]:
    return tomllib.loads(ARCHITECTURES.read_text("utf-8"))
