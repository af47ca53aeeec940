"""The settings of an endpoint and of the whole model access, as they stand in a config. Hashable and picklable."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from inference.families.registry import DEFAULT, check_family, family_of
from schemas.coordinates import CoordinateFrame

if TYPE_CHECKING:
    from inference.families.base import Family

ROLES = ("policy", "teacher", "pointer", "judge", "second_judge", "detector", "segmenter")


@dataclass(frozen=True)
class EndpointSettings:
    """One model endpoint.

    ``kind`` is a key of :data:`inference.endpoint.KINDS`. ``family`` is a key of
    :data:`inference.families.registry.FAMILIES` and says in which coordinate frame the model writes, how it is asked to
    point and to box, and how its replies are read ("": as a model that is told our own form). ``frame`` is the
    coordinate frame where it is another than the family's.
    The API key is read from the environment variable ``api_key_env`` or from the file ``api_key_file``; it never
    stands in a config. ``strength`` is for ``classical`` only: how coarse and jittered its view of the image is
    (0: exact). ``serve_args`` are for ``vllm`` only: further arguments of ``vllm serve``. ``threshold`` is for the
    detectors of ``transformers`` only: boxes with a higher score than this (0 to 1) are listed.

    Flow, for each worker process: at most ``max_concurrency`` requests and ``max_bytes_in_flight`` of request bodies at
    once, at most ``requests_per_minute`` and ``tokens_per_minute`` (0: no limit); with ``adaptive`` the concurrency
    falls while the server is overloaded. ``timeout_s`` bounds one request as a whole, ``read_timeout_s`` the silence
    within it. ``hedge_after_s`` sends a second copy of a request that is still unanswered (0: never).

    ``repair_attempts`` is how often a reply of the wrong form is asked for again; a truncated one is asked for again
    with twice the budget until it exceeds ``max_tokens_limit`` (0: never).

    With a ``seed`` each sample is asked for alone, with the seed plus its number (``openai`` and ``vllm`` only), so
    that a server that supports seeds samples the same again.

    Capabilities: ``multi_image``, ``video``, ``structured_output`` (reply schemas), ``logprobs`` (log-probabilities of
    a given continuation), and ``samples_per_request`` for ``n``. Prices are US dollars per million tokens; input tokens
    that the server had cached cost ``usd_per_million_tokens_cached`` (None: as much as others).
    """

    kind: str
    model: str
    revision: str = ""
    base_url: str = ""
    api_key_env: str = ""
    api_key_file: str = ""
    family: str = ""
    frame: str = ""
    max_concurrency: int = 64
    adaptive: bool = True
    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    max_bytes_in_flight: int = 256_000_000
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 300.0
    timeout_s: float = 600.0
    hedge_after_s: float = 0.0
    max_retries: int = 8
    repair_attempts: int = 1
    max_tokens_limit: int = 0
    samples_per_request: int = 16
    seed: int | None = None
    multi_image: bool = True
    video: bool = False
    structured_output: bool = True
    logprobs: bool = False
    strength: float = 0.0
    threshold: float = 0.3
    serve_args: tuple[str, ...] = ()
    usd_per_million_tokens_in: float = 0.0
    usd_per_million_tokens_out: float = 0.0
    usd_per_million_tokens_cached: float | None = None

    def __post_init__(self) -> None:
        if self.frame:
            CoordinateFrame(self.frame)
        if self.family:
            check_family(self.family)
        if not self.kind or not self.model:
            raise ValueError("an endpoint needs a kind and a model")
        if min(self.max_concurrency, self.samples_per_request, self.max_bytes_in_flight) < 1:
            raise ValueError("max_concurrency, samples_per_request and max_bytes_in_flight must be at least 1")
        limits = (self.max_retries, self.repair_attempts, self.max_tokens_limit)
        if min(*limits, self.requests_per_minute, self.tokens_per_minute, self.hedge_after_s) < 0:
            raise ValueError("retries, repairs, hedge_after_s and limits must not be negative")
        if min(self.timeout_s, self.read_timeout_s, self.connect_timeout_s) <= 0:
            raise ValueError("timeouts must be positive")
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"threshold must be in [0, 1], got {self.threshold}")
        if self.api_key_env and self.api_key_file:
            raise ValueError("api_key_env and api_key_file exclude each other")
        if "@" in urlsplit(self.base_url).netloc or urlsplit(self.base_url).query:
            raise ValueError("base_url must not hold a user, password or query: keys come from api_key_env")

    @property
    def model_family(self) -> "Family":
        """The model's family, with the declared frame, if any, in place of its own.

        Raises ValueError for a family of the user's own that cannot be imported.
        """
        family = family_of(self.family or DEFAULT)
        return replace(family, frame=CoordinateFrame(self.frame)) if self.frame else family

    def cost_usd(self, tokens_in: int, tokens_out: int, tokens_cached: int = 0) -> float:
        """The price of that many tokens; ``tokens_cached`` are those of ``tokens_in`` that the server had cached."""
        cached_usd = self.usd_per_million_tokens_cached
        if cached_usd is None:
            cached_usd = self.usd_per_million_tokens_in
        usd = (tokens_in - tokens_cached) * self.usd_per_million_tokens_in + tokens_cached * cached_usd
        return (usd + tokens_out * self.usd_per_million_tokens_out) / 1_000_000


@dataclass(frozen=True)
class ModelsSettings:
    """All that a worker needs to reach the models: endpoints, which role uses which, the cache and the media roots.

    ``budget_usd`` and ``budget_tokens`` bound what one worker process may spend (None: no bound).
    """

    endpoints: tuple[tuple[str, EndpointSettings], ...]
    roles: tuple[tuple[str, str], ...]
    cache_path: str
    input_root: str
    run_root: str
    classical_threads: int = field(default=2)
    budget_usd: float | None = None
    budget_tokens: int | None = None

    def endpoint_name(self, role: str) -> str:
        """The endpoint that ``role`` uses. Raises ValueError when the config gives it none."""
        for name, endpoint in self.roles:
            if name == role:
                return endpoint
        raise ValueError(f"no endpoint is set for the role {role!r}: add roles.{role} to the config")

    def endpoint(self, role: str) -> EndpointSettings:
        """The settings of the endpoint that ``role`` uses."""
        name = self.endpoint_name(role)
        for key, settings in self.endpoints:
            if key == name:
                return settings
        raise ValueError(f"roles.{role} names the endpoint {name!r}, which endpoints does not define")

    def has_role(self, role: str) -> bool:
        """Whether the config gives ``role`` an endpoint."""
        return any(name == role for name, _ in self.roles)

    @property
    def self_judging(self) -> bool:
        """Whether the judge is the teacher's endpoint."""
        return self.has_role("judge") and self.endpoint_name("judge") == self.endpoint_name("teacher")
