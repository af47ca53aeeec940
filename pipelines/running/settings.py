"""The settings that every pipeline has: its input, its models and its shards."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from inference.embedded import embedded_endpoints, embedded_roles
from inference.endpoint import kind_of
from inference.settings import ROLES, EndpointSettings
from stages.sources.reading import RowSettings
from stages.write_shards import ShardSettings


@dataclass(frozen=True)
class RunSettings:
    """Settings shared by all pipelines; each pipeline's own class adds its stages' sections.

    ``allow_self_judging`` permits a judge that is the teacher's endpoint. It is on while the teacher is the embedded
    engine, whose judging is arithmetic on pixels and text; the lineage marks such rows either way.
    """

    input: RowSettings = field(default_factory=RowSettings)
    endpoints: Mapping[str, EndpointSettings] = field(default_factory=embedded_endpoints)
    roles: Mapping[str, str] = field(default_factory=embedded_roles)
    allow_self_judging: bool = True
    write: ShardSettings = field(default_factory=ShardSettings)

    def __post_init__(self) -> None:
        for name, settings in self.endpoints.items():
            try:
                kind_of(settings.kind)
                _ = settings.model_family
            except ValueError as error:
                raise ValueError(f"endpoints.{name}: {error}") from error
        for role, endpoint in self.roles.items():
            if role not in ROLES:
                raise ValueError(f"roles.{role}: no such role; roles are {', '.join(ROLES)}")
            if endpoint and endpoint not in self.endpoints:
                raise ValueError(f"roles.{role} = {endpoint!r}: endpoints are {', '.join(sorted(self.endpoints))}")
        for role in ("policy", "teacher", "pointer"):
            if not self.roles.get(role):
                raise ValueError(f"roles.{role} must name an endpoint")
        if self.roles.get("judge") == self.roles["teacher"] and not self.allow_self_judging:
            raise ValueError("roles.judge is the teacher's endpoint: choose another or set allow_self_judging = true")
        if self.roles.get("second_judge") and self.roles["second_judge"] == self.roles.get("judge"):
            raise ValueError("roles.second_judge is the judge's endpoint: it would only repeat itself")
