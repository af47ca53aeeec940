"""Defines the settings of one endpoint (a model to which requests are sent), and the settings for all access to models
in a run (endpoints, roles, cache, budget). In a config file, each table ``[endpoints.NAME]`` holds the settings of one
endpoint. The settings objects are hashable and picklable.
"""

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from groundtrace.config.settings import NonEmpty, OneOf, PartName, Share, settings
from groundtrace.inference.families.registry import DEFAULT, FAMILIES
from groundtrace.schemas.coordinates import CoordinateFrame
from groundtrace.storage.places import STANDARD, StorageSettings

if TYPE_CHECKING:
    from groundtrace.inference.families.base import Family

ROLES = ("policy", "teacher", "pointer", "judge", "second_judge", "detector", "segmenter")
Role = Annotated[str, OneOf(ROLES)]
FrameName = Annotated[CoordinateFrame, Field(strict=False)]
"""A coordinate frame, or the name of a coordinate frame, such as "px"."""


_METHOD = "/chat/completions"
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def _variable(name: str) -> str:
    """Return ``name`` unchanged if it is "" or can be the name of an environment variable. Raises ValueError for any
    other text. The error message does not show the text, because the user may have written the API key in place of the
    variable's name."""
    if name and not _VARIABLE.fullmatch(name):
        raise ValueError("must be the name of an environment variable that holds the API key, such as MY_API_KEY")
    return name


def _checked_url(url: str) -> str:
    """Return ``url`` unchanged if it is "" or a URL to which requests can be sent. Raises ValueError for any other
    text, and for a URL that may contain a secret."""
    if not url:
        return url
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"must be a valid URL, such as http://127.0.0.1:8000/v1 ({error})") from error
    if "@" in parts.netloc or parts.query:
        raise ValueError("must be a URL without a user, password or query: give the API key with api_key_env")
    if parts.scheme not in ("http", "https") or not host or port == 0 or not url.isprintable() or " " in url:
        raise ValueError(
            "must be a URL such as http://127.0.0.1:8000/v1, with http or https, a host, and no blanks (a port must "
            "not be 0)"
        )
    if parts.fragment:
        raise ValueError("must be a URL without a fragment: remove # and the text after it")
    if parts.path.rstrip("/").endswith(_METHOD):
        raise ValueError(f"must be a URL without {_METHOD} at its end, since each request adds this part: remove it")
    return url


MAX_CONCURRENCY = 100_000
"""The largest allowed limit on concurrent requests. No server accepts more, and no machine can open more
connections.
"""
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@settings
class EndpointSettings:
    """Holds the settings of one model endpoint: its address, its limits, the abilities of the model, and its prices.

    All processes of a machine that use the same reply cache share the limits on concurrency and rates
    (:mod:`groundtrace.inference.coordination.quota`). ``max_bytes_in_flight`` applies to each process. A config never
    holds an API key. Prices are in US dollars per million tokens.
    """

    kind: Annotated[
        NonEmpty,
        "classical, gemini, openai (any compatible server), transformers (detectors and segmenters), "
        "transformers_chat, or vllm (the run starts the server)",
    ]
    model: Annotated[NonEmpty, "the model's name at the endpoint"]
    revision: Annotated[str, "the version of the model; cached replies of another version are not reused"] = ""
    base_url: Annotated[str, AfterValidator(_checked_url), "the URL of the server, up to /v1"] = ""
    api_key_env: Annotated[str, AfterValidator(_variable), "the environment variable that holds the API key"] = ""
    api_key_file: Annotated[str, "the file that holds the API key"] = ""
    family: Annotated[
        str,
        PartName(FAMILIES, or_empty=True),
        "the model family: how the model is asked for points and boxes, and how its replies are read; a pointer or a "
        "detector needs a family or a frame, unless its kind is classical or transformers",
    ] = ""
    frame: Annotated[
        FrameName | None,
        "the coordinate frame of the model's replies; left out: the frame of its family (plain: px)",
    ] = None
    max_concurrency: Annotated[PositiveInt, Field(le=MAX_CONCURRENCY), "maximum number of requests in flight"] = 64
    adaptive: Annotated[bool, "lower the concurrency while the server is overloaded"] = True
    requests_per_minute: Annotated[NonNegativeInt, "the rate limit in requests (0: no limit)"] = 0
    tokens_per_minute: Annotated[NonNegativeInt, "the rate limit in tokens (0: no limit)"] = 0
    max_bytes_in_flight: Annotated[PositiveInt, "maximum bytes of request bodies in flight"] = 256_000_000
    connect_timeout_s: Annotated[PositiveFloat, "timeout for opening a connection"] = 10.0
    read_timeout_s: Annotated[PositiveFloat, "timeout for the next data of a reply"] = 300.0
    timeout_s: Annotated[PositiveFloat, "timeout for a whole request"] = 600.0
    hedge_after_s: Annotated[
        NonNegativeFloat, "send a second copy of a request that is unanswered after this time (0: never)"
    ] = 0.0
    max_retries: Annotated[NonNegativeInt, "the number of retries of a failed request"] = 8
    outage_timeout_s: Annotated[
        NonNegativeFloat,
        "how long a run waits for a server that is down or asks clients to wait, before the run stops (0: its calls "
        "fail after their retries)",
    ] = 600.0
    check_model: Annotated[bool, "openai: check that the server lists the model"] = True
    repair_attempts: Annotated[NonNegativeInt, "how often a reply in the wrong format is requested again"] = 1
    max_tokens_limit: Annotated[
        NonNegativeInt,
        "a reply that was cut off is requested again with twice its max_tokens, up to this limit (0: only replies that "
        "are parsed, such as judgements and boxes, up to 16384)",
    ] = 0
    samples_per_request: Annotated[PositiveInt, "the maximum number of samples in one request"] = 16
    seed: Annotated[
        int | None,
        "openai and vllm, refused for other kinds: send one request for each sample, with this number plus the "
        "sample's index as its seed",
    ] = None
    multi_image: Annotated[bool, "the model accepts several images in one request"] = True
    video: Annotated[bool, "the model accepts clips"] = False
    structured_output: Annotated[bool, "the server accepts reply schemas"] = True
    logprobs: Annotated[bool, "the server returns the log-probabilities of a given continuation"] = False
    strength: Annotated[
        float, "classical: how much the engine coarsens and jitters its view of an image (0: not at all)"
    ] = 0.0
    threshold: Annotated[Share, "detectors of transformers: boxes with this score or a lower one are dropped"] = 0.3
    serve_args: Annotated[tuple[str, ...], "vllm: further arguments of vllm serve"] = ()
    usd_per_million_tokens_in: Annotated[
        Price | None, "the price of input tokens (0: free); left out: unknown, and their cost counts as 0"
    ] = None
    usd_per_million_tokens_out: Annotated[
        Price | None, "the price of output tokens (0: free); left out: unknown, and their cost counts as 0"
    ] = None
    usd_per_million_tokens_cached: Annotated[
        Price | None, "the price of input tokens that the server had cached; left out: the price of input tokens"
    ] = None

    def __post_init__(self) -> None:
        if self.api_key_env and self.api_key_file:
            raise ValueError("api_key_env and api_key_file cannot be used together: remove one of them")

    @property
    def model_family(self) -> "Family":
        """Return the family of the endpoint's model, which describes how the model writes coordinates. A family has a
        coordinate frame (the unit of coordinates, such as "px"). If the settings have another coordinate frame, the
        result has the frame of the settings.

        Raises ValueError if a family that the user has written cannot be imported.
        """
        family = FAMILIES.named(self.family or DEFAULT)
        return replace(family, frame=self.frame) if self.frame else family

    def cost_usd(self, tokens_in: int, tokens_out: int, tokens_cached: int = 0) -> float:
        """Return the price of the given tokens in US dollars. ``tokens_in`` and ``tokens_out`` are the numbers of input
        and output tokens. ``tokens_cached`` is the number of those input tokens that the server had cached. If the
        price of cached tokens is not set, the price of input tokens is used. Any other price that is not set counts as
        0.
        """
        in_usd, out_usd = self.usd_per_million_tokens_in or 0.0, self.usd_per_million_tokens_out or 0.0
        cached_usd = self.usd_per_million_tokens_cached
        if cached_usd is None:
            cached_usd = in_usd
        usd = (tokens_in - tokens_cached) * in_usd + tokens_cached * cached_usd
        return (usd + tokens_out * out_usd) / 1_000_000

    @property
    def prices_left_out(self) -> tuple[str, ...]:
        """Return the names of the price settings that are missing. Only two settings are checked: the price of input
        tokens and the price of output tokens. Without them, the cost of a request is unknown. The price of cached input
        tokens is not checked, since it is the price of input tokens by default.
        """
        names = ("usd_per_million_tokens_in", "usd_per_million_tokens_out")
        return tuple(name for name in names if getattr(self, name) is None)


@dataclass(frozen=True)
class Neighbour:
    """Describes the reply cache of another run on this machine, from which replies can be copied.

    ``name`` is the name of the run's folder, and ``cache_path`` is the cache's file. ``fresh_since`` is an ISO time:
    the other run did not use replies that were requested before this time. If ``fresh_since`` is "", the other run used
    all replies.
    """

    name: str
    cache_path: str
    fresh_since: str = ""


@dataclass(frozen=True)
class ModelsSettings:
    """Holds everything that a worker needs to call models: the endpoints, the endpoint of each role, the cache, and the
    folders of the media. A role is the job of a model, such as "judge".

    ``endpoints`` holds the settings of each endpoint by name. ``roles`` maps each role to the name of its endpoint.
    ``cache_path`` is the file of the reply cache. ``input_root`` and ``run_root`` are the folders of the input and of
    the run, in which media files are looked up. ``classical_threads`` is the number of threads that a model in the
    worker process may use.

    ``budget_usd`` and ``budget_tokens`` are the budget of all processes of a run together (None: unlimited). ``notes``
    is the folder in which these processes record their usage and the servers that are down
    (:mod:`groundtrace.inference.flow.notes`). Outside of a run ``notes`` is "". In this case no endpoint is checked
    before its first call, and a call to a server that is down fails after its last retry. ``fails_fast`` works only
    outside of a run, for callers that do not wait for a server. If it is True, calls fail immediately, without retries,
    while the server is known to be down.

    ``neighbours`` are the caches of other runs on this machine, from which missing replies are copied. Replies that
    were requested before the ISO time ``fresh_since`` are not used (if it is "", all replies are used). ``workers`` is
    the number of machines among which the budget is divided. ``storage`` holds the settings to access a remote cache
    and remote media. If ``request_log`` is the path of a file, all calls are written to this file, and no request is
    sent. A call then fails if none of the caches holds its replies (:mod:`groundtrace.inference.request_log`). If
    ``request_log`` is "", requests are sent as usual.
    """

    endpoints: tuple[tuple[str, EndpointSettings], ...]
    roles: tuple[tuple[str, str], ...]
    cache_path: str
    input_root: str
    run_root: str
    classical_threads: int = field(default=2)
    budget_usd: float | None = None
    budget_tokens: int | None = None
    notes: str = ""
    fails_fast: bool = False
    neighbours: tuple[Neighbour, ...] = ()
    fresh_since: str = ""
    workers: int = 1
    storage: StorageSettings = STANDARD
    request_log: str = ""

    def endpoint_name(self, role: str) -> str:
        """Return the name of the endpoint for ``role`` (the job of a model, such as "judge"). Raises ValueError if the
        config names no endpoint for the role.
        """
        for name, endpoint in self.roles:
            if name == role:
                return endpoint
        raise ValueError(f"no endpoint is set for the role {role!r}: add roles.{role} to the config")

    def endpoint(self, role: str) -> EndpointSettings:
        """Return the settings of the endpoint for ``role`` (the job of a model, such as "judge"). Raises ValueError if
        the config names no endpoint for the role, or does not define this endpoint.
        """
        name = self.endpoint_name(role)
        for key, endpoint in self.endpoints:
            if key == name:
                return endpoint
        raise ValueError(
            f"roles.{role} names the endpoint {name!r}, which the config does not define: add the table "
            f"[endpoints.{name}]"
        )

    def has_role(self, role: str) -> bool:
        """Return whether the config names an endpoint for ``role`` (the job of a model, such as "judge")."""
        return any(name == role for name, _ in self.roles)

    @property
    def judges_text(self) -> bool:
        """Return whether the config has a judge (a model that grades responses) that can judge text. The result is
        False without a judge. It is also False if the judge is the embedded engine (image-processing code in place of a
        model).
        """
        return self.has_role("judge") and self.endpoint("judge").kind != "classical"

    @property
    def self_judging(self) -> bool:
        """Return whether the judge (which grades responses) and the teacher (which writes reasoning and answers) use
        the same endpoint, so that a model judges its own replies. The result is False if one of them has no endpoint.
        """
        both = self.has_role("judge") and self.has_role("teacher")
        return both and self.endpoint_name("judge") == self.endpoint_name("teacher")

    @property
    def self_checking(self) -> bool:
        """Return whether the detector and the pointer are the same model: their endpoints have the same kind (way to
        reach the model), URL and model name. The pointer marks objects with points. The detector checks these points,
        so in this case a model checks its own points. Returns False if one of them has no endpoint.
        """
        if not (self.has_role("detector") and self.has_role("pointer")):
            return False
        checks, points = self.endpoint("detector"), self.endpoint("pointer")
        return (checks.kind, checks.base_url, checks.model) == (points.kind, points.base_url, points.model)
