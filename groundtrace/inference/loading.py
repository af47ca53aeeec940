"""Loads objects named as ``module:name`` in a registry or a config, when they are first used."""

import importlib
from typing import Any


def is_path(name: str) -> bool:
    """Whether the name has the form ``package.module:name``."""
    module, colon, attribute = name.partition(":")
    return bool(colon) and attribute.isidentifier() and all(part.isidentifier() for part in module.split("."))


def load(path: str) -> Any:
    """Import and return the object ``module:name``. Raises ImportError and AttributeError."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
