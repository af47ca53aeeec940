"""Defines the settings that every pipeline has, such as its input and its models."""

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated

from pydantic import PositiveInt

from groundtrace.config.settings import Plugins, Share, settings
from groundtrace.embedded.roles import embedded_endpoints, embedded_roles
from groundtrace.inference.endpoint import check_access
from groundtrace.inference.settings import EndpointSettings, Role
from groundtrace.stages.sources.base import RowSettings
from groundtrace.stages.write_shards import ShardSettings
from groundtrace.storage.places import StorageSettings


@settings
class RunSettings:
    """Holds the settings that all pipelines share. The class of each pipeline adds the sections of its stages (steps).

    By default, one endpoint (model server) may be both the teacher and the judge (self-judging). The default config
    needs this, because it has no model: the embedded engine has every role. This engine is a part of Groundtrace
    without a neural network, and judges by arithmetic on pixels and text. Each row states in its column ``lineage``
    whether its teacher was also its judge.
    """

    input: RowSettings = field(default_factory=RowSettings)
    endpoints: Annotated[Mapping[str, EndpointSettings], "the models, by names that you choose"] = field(
        default_factory=embedded_endpoints
    )
    roles: Annotated[Mapping[Role, str], "the endpoint of each role (empty: the role is not used)"] = field(
        default_factory=embedded_roles
    )
    allow_self_judging: Annotated[bool, "allow the same endpoint as teacher and judge"] = True
    allow_embedded: Annotated[
        bool,
        "allow the embedded engine as pointer, detector or segmenter beside real models, for images of drawn shapes",
    ] = False
    write: ShardSettings = field(default_factory=ShardSettings)
    storage: StorageSettings = field(default_factory=StorageSettings)
    workers: Annotated[
        PositiveInt | None,
        "the number of machines that use the reply cache at the same time, if it is in a store or on a network file "
        "system; each gets an equal part of the endpoints' limits and of the budget",
    ] = None
    max_failed: Annotated[Share, "the run fails if a stage could not process a larger share of its records"] = 0.25
    plugins: Plugins = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_access(self.endpoints, {role: name for role, name in self.roles.items() if name})
        judge = self.roles.get("judge")
        if judge and judge == self.roles.get("teacher") and not self.allow_self_judging:
            raise ValueError(
                "roles.judge names the same endpoint as roles.teacher: choose another endpoint for the judge, or set "
                "allow_self_judging = true"
            )
        if judge and self.roles.get("second_judge") == judge:
            raise ValueError(
                "roles.second_judge names the same endpoint as roles.judge: choose another endpoint for the second "
                "judge, or leave roles.second_judge empty"
            )
