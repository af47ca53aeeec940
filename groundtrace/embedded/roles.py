"""Defines the default configuration: the embedded engine in every role, without a download, an API key or a GPU."""

from groundtrace.embedded.sight.view import DEFAULT_POLICY_STRENGTH
from groundtrace.inference.settings import EndpointSettings


def embedded_endpoints() -> dict[str, EndpointSettings]:
    """Return three endpoints of the embedded engine: ``coarse`` uses a jittered, downscaled image; ``colour`` and
    ``edges`` use two different algorithms, which can disagree."""
    return {
        "coarse": EndpointSettings(kind="classical", model="colour", strength=DEFAULT_POLICY_STRENGTH),
        "colour": EndpointSettings(kind="classical", model="colour"),
        "edges": EndpointSettings(kind="classical", model="edges"),
    }


def embedded_roles() -> dict[str, str]:
    """Return the name of the endpoint of each role."""
    return {
        "policy": "coarse",
        "teacher": "colour",
        "pointer": "colour",
        "judge": "colour",
        "detector": "edges",
        "segmenter": "edges",
    }
