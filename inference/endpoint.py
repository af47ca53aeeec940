"""The one interface to every model, and the registry of its kinds.

A new kind is one file with a class of this interface and one line in :data:`KINDS`. The registry imports none of them.
"""

from dataclasses import dataclass
from typing import Protocol

from inference.loading import is_path, load
from inference.request import Reply, Request
from inference.settings import EndpointSettings
from schemas.errors import UserError
from vision.media import MediaStore


class Endpoint(Protocol):
    """A model behind one interface. All methods run on the event loop of :mod:`inference.runtime`."""

    settings: EndpointSettings

    @property
    def revision(self) -> str:
        """What tells this model from an earlier one of the same name; part of every cache key."""
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


@dataclass(frozen=True)
class Kind:
    """What the rest of the model access must know of a kind of endpoint without importing it.

    ``endpoint`` is its class as ``module:Class``, called with the settings, the media store and a number of threads.
    An ``in_process`` model runs in the worker itself: it takes no tokens, costs nothing and answers the same way each
    time, so that no budget and no repair concerns it. ``server`` is, for a kind whose server a run starts on its own
    machine, the context manager that does so as ``module:function`` (:mod:`inference.serving`). ``extra`` is the
    optional dependency that its module needs.
    """

    endpoint: str
    in_process: bool = False
    server: str = ""
    extra: str = ""


KINDS = {
    "classical": Kind("inference.endpoints.classical:ClassicalEndpoint", in_process=True),
    "gemini": Kind("inference.endpoints.gemini:GeminiEndpoint", extra="gemini"),
    "openai": Kind("inference.endpoints.openai_compatible:OpenAIEndpoint"),
    "transformers": Kind("inference.endpoints.transformers_models:TransformersEndpoint", in_process=True),
    "vllm": Kind("inference.endpoints.vllm:VllmEndpoint", server="inference.endpoints.vllm_server:serving"),
}
"""One line a kind. A kind of one's own needs none: its class is named as ``module:Class``."""


class EndpointError(UserError, ValueError):
    """An endpoint that cannot be opened as its settings have it; the message says why and what to do."""


def kind_of(name: str) -> Kind:
    """The kind of that name, or of a class elsewhere named as ``module:Class``. Raises :class:`EndpointError`."""
    if name in KINDS:
        return KINDS[name]
    if is_path(name):
        return Kind(name)
    known = ", ".join(sorted(KINDS))
    raise EndpointError(f"unknown kind {name!r}; known are {known}, and a class of your own as module:Class")


def open_endpoint(settings: EndpointSettings, media: MediaStore, threads: int) -> Endpoint:
    """The endpoint that the settings describe.

    Raises :class:`EndpointError` for an unknown kind and for one whose libraries are not installed.
    """
    kind = kind_of(settings.kind)
    try:
        endpoint = load(kind.endpoint)
    except (ImportError, AttributeError) as error:
        install = f"pip install 'groundtrace[{kind.extra}]'" if kind.extra else "make it importable"
        raise EndpointError(f"the endpoint kind {settings.kind} cannot be imported ({error}): {install}") from error
    return endpoint(settings, media, threads)
