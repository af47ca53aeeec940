"""The one interface to every model, and the registry of its kinds.

A new kind is one file with a class of this interface and one line in :data:`KINDS`.
"""

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from inference.request import Reply, Request
from inference.settings import EndpointSettings
from schemas.extras import require_extra
from vision.media import MediaStore


class Endpoint(Protocol):
    """A model behind one interface. All methods run on the event loop of :mod:`inference.runtime`."""

    settings: EndpointSettings

    @property
    def revision(self) -> str:
        """What distinguishes this model from an earlier one of the same name; part of every cache key."""
        ...

    async def generate(self, request: Request) -> Reply:
        """One reply for each of the request's indices.

        Raises :class:`inference.errors.CallError` when the call failed for good. A reply never holds empty text.
        """
        ...

    async def check(self) -> str:
        """One line on the endpoint's health; raises :class:`inference.errors.CallError` when it cannot serve."""
        ...

    async def close(self) -> None:
        """Release connections and threads."""
        ...


SERVED = "vllm"
"""The kind whose server the run itself starts; workers see it as ``openai`` (:mod:`inference.endpoints.vllm_server`).
"""

IN_PROCESS = ("classical", "transformers")
"""Kinds whose models run in the worker's own process: they take no tokens and answer the same way each time."""


@dataclass(frozen=True)
class Kind:
    """Where the class of a kind is (``module:Class``), and the extra that brings the modules that it needs."""

    path: str
    extra: str = ""
    modules: tuple[str, ...] = ()


_TORCH_MODULES = ("torch", "torchvision", "transformers")
KINDS: dict[str, Kind] = {
    "classical": Kind("inference.endpoints.classical:ClassicalEndpoint"),
    "gemini": Kind("inference.endpoints.gemini:GeminiEndpoint", "gemini", ("google.genai",)),
    "openai": Kind("inference.endpoints.openai_compatible:OpenAIEndpoint"),
    "transformers": Kind("inference.endpoints.transformers_models:TransformersEndpoint", "vision", _TORCH_MODULES),
}


def check_access(endpoints: Mapping[str, EndpointSettings], roles: Mapping[str, str]) -> None:
    """Raises ValueError for an endpoint of an unknown kind, and for a role whose endpoint is not defined."""
    known = sorted((*KINDS, SERVED))
    for name, endpoint in endpoints.items():
        if endpoint.kind not in known:
            raise ValueError(f"endpoints.{name}.kind must be one of {', '.join(known)}, got {endpoint.kind!r}")
    for role, name in roles.items():
        if name not in endpoints:
            raise ValueError(f"roles.{role} must be one of {', '.join(sorted(endpoints))}, got {name!r}")


def check_extras(endpoints: Iterable[EndpointSettings]) -> None:
    """Raises :class:`schemas.extras.MissingExtra` for an endpoint of a kind whose packages are not installed here."""
    for endpoint in endpoints:
        kind = KINDS.get(endpoint.kind)
        if kind is not None and kind.extra:
            require_extra(kind.extra, f"an endpoint of the kind {endpoint.kind}", *kind.modules)


def open_endpoint(settings: EndpointSettings, media: MediaStore, threads: int) -> Endpoint:
    """The endpoint that the settings describe.

    Raises ValueError for an unknown kind, :class:`schemas.extras.MissingExtra` for one whose packages are missing.
    """
    if settings.kind == SERVED:
        raise ValueError(f"the vllm endpoint {settings.model!r} has no server: only a run on this machine starts one")
    if settings.kind not in KINDS:
        raise ValueError(f"unknown endpoint kind {settings.kind!r}: known are {', '.join(sorted(KINDS))}")
    check_extras([settings])
    module, name = KINDS[settings.kind].path.split(":")
    return getattr(importlib.import_module(module), name)(settings, media, threads)
