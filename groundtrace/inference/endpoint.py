"""Defines the interface to all models, and the registry of endpoint kinds. An endpoint is a model to which requests are
sent. The kind of an endpoint is the way to reach this model (e.g. a server with OpenAI's API, or a model in this
process).

A new kind needs one file with a class that has the methods of :class:`Endpoint`, and one entry in :data:`KINDS`. The
registry does not import the modules of the kinds. A :class:`Kind` holds the properties that a run needs before it opens
an endpoint.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from groundtrace.config.extras import require_extra
from groundtrace.inference.families.registry import DEFAULT, FAMILIES
from groundtrace.inference.request import Reply, Request
from groundtrace.inference.settings import EndpointSettings
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.registry import Registry, RegistryError, load
from groundtrace.vision.media import MediaStore


class Endpoint(Protocol):
    """Defines the interface to one model, which runs on a server or in this process. ``settings`` are the endpoint's
    settings. All methods run on the event loop of :mod:`groundtrace.inference.runtime`.
    """

    settings: EndpointSettings

    @property
    def revision(self) -> str:
        """Return the version of the model. It is a part of every cache key, so that replies of another version with the
        same model name are not used.
        """
        ...

    async def generate(self, request: Request) -> Reply:
        """Send the request to the model, and return the reply. It has one sample (generated text) for each number in
        ``request.indices`` (the numbers of the requested samples), in the same order. A sample has an empty text only
        if it was truncated.

        Raises :class:`groundtrace.inference.errors.CallError` if the call failed after all retries.
        """
        ...

    async def check(self) -> str:
        """Check whether the endpoint can answer requests. Returns one line for the user that describes the endpoint,
        e.g. "serves MODEL". Raises :class:`groundtrace.inference.errors.CallError` if the endpoint cannot answer
        requests.
        """
        ...

    async def close(self) -> None:
        """Close the connections, and end the threads of the endpoint."""
        ...


@dataclass(frozen=True)
class Kind:
    """Holds the properties of an endpoint kind (a way to reach a model) that are needed before its module is imported.

    - ``endpoint`` is the class of the endpoint, written as ``module:Class``. The arguments of its constructor are the
      settings, the media store and a number of threads.
    - ``in_process`` is True if the model runs in the worker process itself. Such a model costs nothing and gives the
      same answer each time. So it needs no budget, and is not asked again to correct an unusable reply.
    - ``server`` is the name of a context manager, written as ``module:function``. The context manager starts the
      servers of this kind on the machine of the run (:mod:`groundtrace.inference.serving`). ``server`` is "" for kinds
      whose servers the run does not start.
    - ``modules`` are the Python modules that this kind needs, and ``extra`` is the optional dependency of this project
      that installs them.
    - ``own_form`` is True if all models of this kind write points and boxes in this project's JSON form. The
      coordinates are pixels of the original image. There is one exception: detectors of the kind "transformers" write
      coordinates in other units (e.g. 0 to 1000) if the setting ``frame`` names these units. The setting ``family``
      must be left out or "plain", since other families have other forms of coordinates.
    - ``embedded`` is True for the embedded engine: image-processing code that is used in place of a model.
    - ``needs_url`` is True if the settings must contain the server's URL.
    - ``uses_seed`` is False if endpoints of this kind ignore the setting ``seed``. A config that sets a seed for such
      an endpoint is refused.
    - ``prompts`` is the name of a function, written as ``module:function``. The function gets an endpoint's settings,
      and returns the ids of the prompts that the endpoint's model can answer. It may raise CallError. ``prompts`` is ""
      if the models of this kind answer all prompts.
    """

    endpoint: str
    in_process: bool = False
    server: str = ""
    extra: str = ""
    modules: tuple[str, ...] = ()
    own_form: bool = False
    embedded: bool = False
    needs_url: bool = False
    uses_seed: bool = True
    prompts: str = ""


class Kinds(Registry[Kind]):
    """Registers the endpoint kinds (ways to reach a model, such as "openai") by name. Users can add their own kind with
    a name of the form ``module:NAME``. Such a name refers to a :class:`Kind`, or to the class of an endpoint. In the
    second case, a :class:`Kind` with this class and default values is made.
    """

    def made(self, path: str, found: Any) -> Kind:
        """Return the endpoint kind (way to reach a model) that a name ``module:NAME`` refers to. ``path`` is this name,
        and ``found`` is the object that was imported under this name. If ``found`` is a :class:`Kind`, it is returned.
        If ``found`` is the class of an endpoint, a kind with this class is returned. Raises RegistryError for any other
        object.
        """
        if isinstance(found, Kind):
            return found
        if not isinstance(found, type) or not callable(getattr(found, "generate", None)):
            wanted = "a class with the methods of groundtrace.inference.endpoint.Endpoint, or a Kind of that module"
            raise RegistryError(self.wrong(path, found, wanted))
        return Kind(path)


_OURS = {
    "classical": Kind(
        "groundtrace.embedded.endpoint:ClassicalEndpoint",
        in_process=True,
        own_form=True,
        embedded=True,
        uses_seed=False,
        prompts="groundtrace.embedded.endpoint:prompts_of",
    ),
    "gemini": Kind(
        "groundtrace.inference.endpoints.gemini:GeminiEndpoint",
        extra="gemini",
        modules=("google.genai",),
        uses_seed=False,
    ),
    "openai": Kind("groundtrace.inference.endpoints.openai_compatible:OpenAIEndpoint", needs_url=True),
    "transformers": Kind(
        "groundtrace.inference.endpoints.transformers_models:TransformersEndpoint",
        in_process=True,
        extra="vision",
        modules=("torch", "torchvision", "transformers"),
        own_form=True,
        uses_seed=False,
        prompts="groundtrace.inference.endpoints.transformers_models:prompts_of",
    ),
    "transformers_chat": Kind(
        "groundtrace.inference.endpoints.chat_model:ChatEndpoint",
        in_process=True,
        extra="vision",
        modules=("torch", "torchvision", "transformers"),
        uses_seed=False,
    ),
    "vllm": Kind(
        "groundtrace.inference.endpoints.vllm:VllmEndpoint",
        server="groundtrace.inference.endpoints.vllm_server:serving",
    ),
}
KINDS = Kinds("endpoint_kinds", "endpoint kind", "groundtrace.inference.endpoint:Kind", _OURS)


class EndpointError(UserError, ValueError):
    """Raised if an endpoint cannot be opened with its settings. The message has the reason and what the user can do."""


def kind_of(name: str) -> Kind:
    """Return the properties of the endpoint kind with this name. A kind is the way to reach a model, e.g. "openai" for
    servers with OpenAI's API. A name of the form ``module:NAME`` is a kind that the user has written. Raises
    :class:`EndpointError` if the kind does not exist.
    """
    try:
        return KINDS.named(name)
    except RegistryError as error:
        is_known = ":" in name or name in KINDS.ours or name in KINDS.plugins
        hint = "" if is_known else " (openai is any server with OpenAI's chat API, such as vLLM, SGLang or Ollama)"
        raise EndpointError(f"the endpoint kind {error}{hint}") from error


def is_embedded(settings: EndpointSettings) -> bool:
    """Return whether the endpoint with these settings is the embedded engine: image-processing code that is used in
    place of a model. This engine recognises drawn shapes, but it does not recognise objects in photographs.
    """
    return kind_of(settings.kind).embedded


def is_real(settings: EndpointSettings) -> bool:
    """Return whether the endpoint with these settings is known to serve a real model. The result is False for the
    embedded engine (image-processing code without a model), and for an endpoint kind that the user has written (a
    plug-in), since its models are unknown.
    """
    return settings.kind in KINDS.ours and not kind_of(settings.kind).embedded


def check_access(endpoints: Mapping[str, EndpointSettings], roles: Mapping[str, str]) -> None:
    """Raise ValueError if an endpoint or a role (the job of a model, such as "judge") is not configured correctly.
    ``endpoints`` holds the settings of each endpoint by name. ``roles`` maps each role to the name of its endpoint. The
    message begins with the config key to change. The error is raised in these cases:

    - An endpoint has an unknown kind (way to reach a model), or an unknown family (way to write coordinates).
    - An endpoint has a seed, but its kind ignores seeds.
    - The endpoint of a role is not defined.
    - The endpoint of a role has no URL, but its kind needs one.
    - The endpoint of a pointer or a detector fails :func:`check_coordinates`, which checks that the model writes points
      or boxes in a known form.
    """
    for name, endpoint in endpoints.items():
        try:
            kind = kind_of(endpoint.kind)
        except EndpointError as error:
            raise ValueError(f"endpoints.{name}.kind is wrong: {error}") from error
        if endpoint.seed is not None and not kind.uses_seed:
            users = " and ".join(each for each in KINDS if KINDS[each].uses_seed)
            raise ValueError(
                f"endpoints.{name}.seed must not be set, since endpoints of the kind {endpoint.kind} ignore it: remove "
                f"this key (it is for {users})"
            )
        try:
            FAMILIES.named(endpoint.family or DEFAULT)
        except ValueError as error:
            raise ValueError(f"endpoints.{name}.family cannot be used, because it {error}") from error
    for role, name in roles.items():
        if name not in endpoints:
            known = ", ".join(sorted(endpoints))
            raise ValueError(
                f"roles.{role} must be one of {known}, got {name!r}: use one of these endpoints, or add an endpoint "
                "with this name beside them"
            )
        if role in COORDINATE_ROLES:
            check_coordinates(role, name, endpoints[name])
        if kind_of(endpoints[name].kind).needs_url and not endpoints[name].base_url:
            raise ValueError(
                f"endpoints.{name}.base_url is not set: set it to the server's URL, such as http://127.0.0.1:8000/v1"
            )


COORDINATE_ROLES = ("pointer", "detector")
"""The roles whose replies hold coordinates in the frame of their model's family (e.g. 0 to 1000).

:func:`check_access` checks that the models of these roles write coordinates in a known form. Other roles use pixels: a
segmenter gets and returns pixels in this project's own form, and a teacher repeats the pixels of its prompt. If the
teacher or the policy of a recipe (pipeline) locates objects itself, the code of this recipe checks this role, too.
"""


def check_coordinates(role: str, name: str, settings: EndpointSettings) -> None:
    """Check that an endpoint's model can mark objects: as a pointer with points or boxes, as a detector with boxes.
    ``role`` is "pointer" or "detector", ``name`` is the endpoint's name, and ``settings`` are its settings. Raises
    ValueError with a message that begins with the config key to change. The error is raised in these cases:

    - The settings have neither ``family`` (models that write coordinates in the same way) nor ``frame`` (such as
      pixels, or 0 to 1000). They are not needed if the endpoint's kind has its own form of coordinates.
    - The settings name a family other than "plain", but the endpoint's kind has its own form of coordinates.
    - The role is the detector, and the model writes no boxes.
    - The role is the pointer, and the model writes neither points nor boxes.
    """
    _check_declared(role, name, settings)
    family = settings.model_family
    if not (family.box_prompt if role == "detector" else family.asked_to_point):
        able = "points" if family.point_prompt else "boxes"
        raise ValueError(
            f"roles.{role}: the model family {family.name} of the endpoint {name!r} can only write {able}: "
            f"choose another endpoint for the {role}"
        )


def check_boxes(role: str, name: str, settings: EndpointSettings) -> None:
    """Raise ValueError if the model of the endpoint ``name`` cannot write boxes. ``role`` is the job of the model, such
    as "detector"; it appears in the message. ``settings`` are the endpoint's settings.

    The error is also raised in two other cases:

    - The settings have neither ``family`` (models that write coordinates in the same way) nor ``frame`` (such as
      pixels). They are not needed if the endpoint's kind (the way to reach the model) has its own form of coordinates.
    - The settings name a family other than "plain", but the endpoint's kind has its own form of coordinates.
    """
    _check_declared(role, name, settings)
    if not settings.model_family.box_prompt:
        raise ValueError(
            f"roles.{role}: the model family {settings.model_family.name} of the endpoint {name!r} can only write "
            f"points: choose another endpoint for the {role}"
        )


def _check_declared(role: str, name: str, settings: EndpointSettings) -> None:
    family = settings.model_family
    if kind_of(settings.kind).own_form:
        if family.name != DEFAULT:
            raise ValueError(
                f"endpoints.{name}.family must not be set, since the kind {settings.kind} has its own form of "
                "coordinates: remove this key"
            )
    elif not settings.family and settings.frame is None:
        raise ValueError(
            f"endpoints.{name}.family is not set, and the {role} writes coordinates: set it to one of "
            f"{', '.join(sorted(FAMILIES))} (or set endpoints.{name}.frame for a model of another family)"
        )


def check_extras(endpoints: Iterable[EndpointSettings]) -> None:
    """Check that the required packages of these endpoints are installed. An endpoint's kind (the way to reach the
    model, such as "gemini") determines the packages. Raises :class:`groundtrace.config.extras.MissingExtra` if a
    package is missing.
    """
    for endpoint in endpoints:
        kind = kind_of(endpoint.kind)
        if kind.extra:
            require_extra(kind.extra, f"an endpoint of the kind {endpoint.kind}", *kind.modules)


def extras_of(endpoints: Iterable[EndpointSettings]) -> set[str]:
    """Return the names of the optional dependencies (extras of this project) that these endpoints need. An endpoint's
    kind (the way to reach the model, such as "gemini") determines its optional dependency.
    """
    return {kind.extra for kind in (kind_of(endpoint.kind) for endpoint in endpoints) if kind.extra}


def open_endpoint(settings: EndpointSettings, media: MediaStore, threads: int) -> Endpoint:
    """Create the endpoint that ``settings`` describe, and return it. ``media`` is the store from which the images and
    clips of prompts are read. ``threads`` is the number of threads that a model in this process may use.

    Raises :class:`EndpointError` if the endpoint's kind (the way to reach the model, such as "gemini") is unknown or
    cannot be imported. Raises :class:`groundtrace.config.extras.MissingExtra` if packages that the kind needs are
    missing.
    """
    check_extras([settings])
    try:
        endpoint = load(kind_of(settings.kind).endpoint)
    except RegistryError as error:
        raise EndpointError(f"the class of the endpoint kind {settings.kind} cannot be loaded: {error}") from error
    return endpoint(settings, media, threads)
