"""Defines the default configuration: the embedded engine (OpenCV, no model) does the job of every model, such as judge.

The engine needs no download, no API key and no GPU.
"""

from groundtrace.embedded.sight.view import DEFAULT_POLICY_STRENGTH
from groundtrace.inference.settings import EndpointSettings


def embedded_endpoints() -> dict[str, EndpointSettings]:
    """Return a dict from the names of three endpoints of the embedded engine to their settings.

    The endpoint ``coarse`` sees each image coarsened (scaled down and blurred) at random, so that some of its answers
    are wrong. The endpoints ``colour`` and ``edges`` see the image itself, and use different algorithms, which can
    disagree.
    """
    return {
        "coarse": EndpointSettings(kind="classical", model="colour", strength=DEFAULT_POLICY_STRENGTH),
        "colour": EndpointSettings(kind="classical", model="colour"),
        "edges": EndpointSettings(kind="classical", model="edges"),
    }


def embedded_roles() -> dict[str, str]:
    """Return a dict from each role (the job of a model, such as "judge") to the name of the endpoint that takes this
    role.
    """
    return {
        "policy": "coarse",
        "teacher": "colour",
        "pointer": "colour",
        "judge": "colour",
        "detector": "edges",
        "segmenter": "edges",
    }
