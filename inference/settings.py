"""The settings of an endpoint and of the whole model access, as they stand in a config. Hashable and picklable."""

from dataclasses import dataclass, field

from schemas.frames import Frame

ROLES = ("policy", "teacher", "pointer", "judge", "detector", "segmenter")


@dataclass(frozen=True)
class EndpointSettings:
    """One model endpoint.

    ``kind`` is a key of :data:`inference.endpoint.KINDS`. ``frame`` is the coordinate frame that the model speaks.
    ``api_key_env`` names the environment variable that holds the key; the key itself never stands in a config.
    ``strength`` is for ``classical`` only: how coarse and jittered its view of the picture is (0: exact).
    Prices are US dollars per million tokens.
    """

    kind: str
    model: str
    revision: str = ""
    base_url: str = ""
    api_key_env: str = ""
    frame: str = Frame.PX.value
    max_concurrency: int = 32
    connect_timeout_s: float = 10.0
    timeout_s: float = 300.0
    max_retries: int = 6
    samples_per_request: int = 16
    structured_output: bool = True
    strength: float = 0.0
    usd_per_million_tokens_in: float = 0.0
    usd_per_million_tokens_out: float = 0.0

    def __post_init__(self) -> None:
        Frame(self.frame)
        if not self.kind or not self.model:
            raise ValueError("an endpoint needs a kind and a model")
        if self.max_concurrency < 1 or self.samples_per_request < 1 or self.max_retries < 0:
            raise ValueError("max_concurrency and samples_per_request must be at least 1, max_retries at least 0")
        if self.timeout_s <= 0 or self.connect_timeout_s <= 0:
            raise ValueError("timeouts must be positive")

    def cost_usd(self, tokens_in: int, tokens_out: int) -> float:
        """The price of that many tokens."""
        return (tokens_in * self.usd_per_million_tokens_in + tokens_out * self.usd_per_million_tokens_out) / 1_000_000


@dataclass(frozen=True)
class ModelsSettings:
    """All that a worker needs to reach the models: endpoints, which role uses which, the cache and the media roots."""

    endpoints: tuple[tuple[str, EndpointSettings], ...]
    roles: tuple[tuple[str, str], ...]
    cache_path: str
    input_root: str
    run_root: str
    classical_threads: int = field(default=2)

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
