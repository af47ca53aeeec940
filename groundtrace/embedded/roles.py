"""Defines the default configuration: the embedded engine in every role, without a download, an API key or a GPU."""

from groundtrace.embedded.sight.view import DEFAULT_POLICY_STRENGTH
from groundtrace.inference.settings import EndpointSettings


def embedded_endpoints() -> dict[str, EndpointSettings]:
    """Return the settings of three endpoints of the embedded engine, by name.

    ``coarse`` uses a randomly coarsened image. ``colour`` and ``edges`` use different algorithms, which can disagree.
    """
    return {
        "coarse": EndpointSettings(kind="classical", model="colour", strength=DEFAULT_POLICY_STRENGTH),
        "colour": EndpointSettings(kind="classical", model="colour"),
        "edges": EndpointSettings(kind="classical", model="edges"),
    }


def embedded_roles() -> dict[str, str]:
    """Return, for each role, the name of the endpoint that has this role."""
    return {
        "policy": "coarse",
        "teacher": "colour",
        "pointer": "colour",
        "judge": "colour",
        "detector": "edges",
        "segmenter": "edges",
    }
