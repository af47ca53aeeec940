"""The one interface to every model, and the registry of its kinds.

A new kind is one file with a class of this interface and one line in :data:`KINDS`. The registry imports none of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from groundtrace.inference.families.registry import DEFAULT, FAMILIES, family_of
from groundtrace.inference.loading import is_path, load
from groundtrace.inference.request import Reply, Request
from groundtrace.inference.settings import EndpointSettings
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.extras import require_extra
from groundtrace.vision.media import MediaStore


class Endpoint(Protocol):
    """A model behind one interface. All methods run on the event loop of :mod:`groundtrace.inference.runtime`."""

    settings: EndpointSettings

    @property
    def revision(self) -> str:
        """What tells this model from an earlier one of the same name; part of every cache key."""
        ...

    async def generate(self, request: Request) -> Reply:
        """One reply for each of the request's indices.

        Raises :class:`groundtrace.inference.errors.CallError` when the call failed for good. A reply never holds empty
        text.
        """
        ...

    async def check(self) -> str:
        """One line on the endpoint's health; raises :class:`groundtrace.inference.errors.CallError` when it cannot
        serve.
        """
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
    machine, the context manager that does so as ``module:function`` (:mod:`groundtrace.inference.serving`). ``extra``
    is the optional dependency that brings the ``modules`` that it needs.

    ``own_form`` is a kind that points and boxes in our own form, in pixels of the original unless a frame is declared,
    whatever its model: it needs no family. ``embedded`` is the engine that stands in for models where there are none.
    One that ``needs_url`` is told where its server answers. ``prompts`` is, for a kind whose models answer some prompts
    only, the function as ``module:function`` from an endpoint's settings to their ids; it may raise CallError.
    """

    endpoint: str
    in_process: bool = False
    server: str = ""
    extra: str = ""
    modules: tuple[str, ...] = ()
    own_form: bool = False
    embedded: bool = False
    needs_url: bool = False
    prompts: str = ""


KINDS = {
    "classical": Kind(
        "groundtrace.inference.endpoints.classical:ClassicalEndpoint",
        in_process=True,
        own_form=True,
        embedded=True,
        prompts="groundtrace.inference.endpoints.classical:prompts_of",
    ),
    "gemini": Kind("groundtrace.inference.endpoints.gemini:GeminiEndpoint", extra="gemini", modules=("google.genai",)),
    "openai": Kind("groundtrace.inference.endpoints.openai_compatible:OpenAIEndpoint", needs_url=True),
    "transformers": Kind(
        "groundtrace.inference.endpoints.transformers_models:TransformersEndpoint",
        in_process=True,
        extra="vision",
        modules=("torch", "torchvision", "transformers"),
        own_form=True,
        prompts="groundtrace.inference.endpoints.transformers_models:prompts_of",
    ),
    "vllm": Kind(
        "groundtrace.inference.endpoints.vllm:VllmEndpoint",
        server="groundtrace.inference.endpoints.vllm_server:serving",
    ),
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
    raise EndpointError(
        f"unknown kind {name!r}; known are {known}, and a class of your own as module:Class "
        "(openai is any server with OpenAI's chat API, such as vLLM, SGLang or Ollama)"
    )


def is_embedded(settings: EndpointSettings) -> bool:
    """Whether it is the embedded engine, which reads drawn shapes and no photographs."""
    return kind_of(settings.kind).embedded


def is_real(settings: EndpointSettings) -> bool:
    """Whether a model stands behind it; of a kind of the user's own nothing is known."""
    return settings.kind in KINDS and not KINDS[settings.kind].embedded


def check_access(endpoints: Mapping[str, EndpointSettings], roles: Mapping[str, str]) -> None:
    """Raises ValueError for endpoints and roles that cannot work together; its message begins with the key to change.

    That is an endpoint of an unknown kind or family, a role whose endpoint is not defined or has no address, and a
    pointer or a detector whose endpoint says nothing of how it writes coordinates, or cannot do what the role asks.
    """
    for name, endpoint in endpoints.items():
        try:
            kind_of(endpoint.kind)
        except EndpointError as error:
            raise ValueError(f"endpoints.{name}.kind: {error}") from error
        try:
            family_of(endpoint.family or DEFAULT)
        except ValueError as error:
            raise ValueError(f"endpoints.{name}.family: {error}") from error
    for role, name in roles.items():
        if name not in endpoints:
            known = ", ".join(sorted(endpoints))
            raise ValueError(f"roles.{role} must be one of {known}, got {name!r}: add a section [endpoints.{name}]")
        if role in COORDINATE_ROLES:
            check_coordinates(role, name, endpoints[name])
        if kind_of(endpoints[name].kind).needs_url and not endpoints[name].base_url:
            raise ValueError(
                f"endpoints.{name}.base_url is not set: say where the server answers, such as http://127.0.0.1:8000/v1"
            )


COORDINATE_ROLES = ("pointer", "detector")
"""The roles whose replies hold coordinates in the frame of their model's family.

A segmenter is told and replies pixels in our own form, and a teacher repeats the pixels that it is told; a recipe whose
teacher boxes by its own sight checks it too.
"""


def check_coordinates(role: str, name: str, settings: EndpointSettings) -> None:
    """Raises ValueError for an endpoint of a role that writes coordinates which says nothing of how it does, or cannot.

    Its message begins with the key to change.
    """
    family = settings.model_family
    if kind_of(settings.kind).own_form:
        if family.name != DEFAULT:
            raise ValueError(
                f"endpoints.{name}.family: the kind {settings.kind} points and boxes in its own form: leave it out"
            )
    elif not settings.family and settings.frame is None:
        raise ValueError(
            f"endpoints.{name}.family: the {role} writes coordinates, so say how: one of {', '.join(sorted(FAMILIES))} "
            f"(or endpoints.{name}.frame, for a model that is told our form)"
        )
    if not (family.box_prompt if role == "detector" else family.asked_to_point):
        able = "point" if family.point_prompt else "box"
        raise ValueError(f"roles.{role}: the family {family.name} of {name!r} can only {able}: choose another endpoint")


def check_extras(endpoints: Iterable[EndpointSettings]) -> None:
    """Raises :class:`groundtrace.schemas.extras.MissingExtra` for an endpoint of a kind whose packages are not
    installed here.
    """
    for endpoint in endpoints:
        kind = kind_of(endpoint.kind)
        if kind.extra:
            require_extra(kind.extra, f"an endpoint of the kind {endpoint.kind}", *kind.modules)


def extras_of(endpoints: Iterable[EndpointSettings]) -> set[str]:
    """The extras that bring the packages of the endpoints' kinds."""
    return {kind.extra for kind in (kind_of(endpoint.kind) for endpoint in endpoints) if kind.extra}


def open_endpoint(settings: EndpointSettings, media: MediaStore, threads: int) -> Endpoint:
    """The endpoint that the settings describe.

    Raises :class:`EndpointError` for an unknown kind, :class:`groundtrace.schemas.extras.MissingExtra` for one whose
    packages are missing.
    """
    check_extras([settings])
    try:
        endpoint = load(kind_of(settings.kind).endpoint)
    except (ImportError, AttributeError) as error:
        said = f"the endpoint kind {settings.kind} cannot be imported ({error}): make it importable"
        raise EndpointError(said) from error
    return endpoint(settings, media, threads)
