"""API keys: read from the environment or a named file when an endpoint is opened, and kept out of every text."""

import os
from pathlib import Path

from inference.settings import EndpointSettings

NO_KEY = "none"
"""What is sent to a server that wants no key."""
_MIN_SECRET_CHARS = 6


def api_key(settings: EndpointSettings) -> str:
    """The endpoint's key, :data:`NO_KEY` where it declares none.

    Raises ValueError, naming the variable or the file, when the key is not there or no header could hold it.
    """
    if settings.api_key_env:
        key = os.environ.get(settings.api_key_env, "").strip()
        if not key:
            raise ValueError(f"endpoint {settings.model!r}: the environment variable {settings.api_key_env} is not set")
        return _checked(key, settings.model, f"the environment variable {settings.api_key_env}")
    if not settings.api_key_file:
        return NO_KEY
    try:
        key = Path(settings.api_key_file).expanduser().read_text("utf-8").strip()
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        message = f"endpoint {settings.model!r}: cannot read the key file {settings.api_key_file}: {reason}"
        raise ValueError(message) from None
    if not key:
        raise ValueError(f"endpoint {settings.model!r}: the key file {settings.api_key_file} is empty")
    return _checked(key, settings.model, f"the key file {settings.api_key_file}")


def _checked(key: str, model: str, where: str) -> str:
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise ValueError(f"endpoint {model!r}: {where} holds no key: a key is one word of plain ASCII characters")
    return key


def scrub(text: str, key: str) -> str:
    """The text without the key, which some servers echo. Too short a key would scrub ordinary words and is left."""
    return text.replace(key, "***") if len(key) >= _MIN_SECRET_CHARS else text
