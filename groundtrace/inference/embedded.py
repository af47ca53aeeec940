"""The embedded engine in every role: the defaults, which need no download, no key and no GPU."""

from groundtrace.inference.settings import EndpointSettings
from groundtrace.vision.classical.view import DEFAULT_POLICY_STRENGTH


def embedded_endpoints() -> dict[str, EndpointSettings]:
    """The embedded engine under three names: ``coarse`` sees a jittered, downscaled image, ``colour`` and ``edges``
    are two algorithms that can disagree."""
    return {
        "coarse": EndpointSettings(kind="classical", model="colour", strength=DEFAULT_POLICY_STRENGTH),
        "colour": EndpointSettings(kind="classical", model="colour"),
        "edges": EndpointSettings(kind="classical", model="edges"),
    }


def embedded_roles() -> dict[str, str]:
    """The embedded engine in every role: nothing to download, no key, no GPU."""
    return {
        "policy": "coarse",
        "teacher": "colour",
        "pointer": "colour",
        "judge": "colour",
        "detector": "edges",
        "segmenter": "edges",
    }
