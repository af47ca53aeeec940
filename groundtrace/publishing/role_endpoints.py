"""Describes the endpoints of a run's roles for readers: the names, kinds and settings, without addresses and keys.

A role is a job of a model, such as teacher. Roles whose endpoints serve the same model are distinguished by the names
of the endpoints and by the settings that change the replies.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groundtrace.inference.settings import EndpointSettings

_SHOWN = ("strength", "threshold", "seed")
"""The settings of an endpoint that change its replies and are numbers, so that they cannot hold a secret."""


@dataclass(frozen=True)
class RoleEndpoint:
    """Describes the endpoint of one role (a job of a model, such as teacher).

    Attributes:
        name: the name of the endpoint in the config; "" if the config names none.
        kind: the way to reach the model, such as ``openai``; "" if the config does not state it.
        revision: the model's revision that the config states; "" if it states none.
        settings: the settings of :data:`_SHOWN` that differ from their defaults, such as "strength 2.0"; "" if all have
            their defaults.
    """

    name: str = ""
    kind: str = ""
    revision: str = ""
    settings: str = ""

    @property
    def text(self) -> str:
        """Return the name and the settings of the endpoint, such as "unsure, strength 2.0"."""
        return ", ".join(filter(None, (self.name, self.settings)))

    def public_text(self, name: str) -> str:
        """Return the kind and the settings of the endpoint for the data card, such as "embedded engine, strength 2.0".

        ``name`` is the name of the endpoint, which is put in front; "" to leave it out.
        """
        kind = "embedded engine" if self.kind == "classical" else self.kind or "not recorded"
        return (f"{name}: " if name else "") + ", ".join(filter(None, (kind, self.settings)))


def role_endpoint(config: Mapping[str, Any], role: str) -> RoleEndpoint:
    """Return the endpoint of a role (a job of a model, such as teacher) by the content of a run's ``config.toml``."""
    name = str(config.get("roles", {}).get(role, ""))
    settings = config.get("endpoints", {}).get(name)
    if not isinstance(settings, dict):
        return RoleEndpoint(name)
    shown = [
        f"{key} {settings[key]}"
        for key in _SHOWN
        if isinstance(settings.get(key), int | float) and settings[key] != _default(key)
    ]
    return RoleEndpoint(name, str(settings.get("kind", "")), str(settings.get("revision", "")), ", ".join(shown))


def _default(key: str) -> object:
    return EndpointSettings.__dataclass_fields__[key].default
