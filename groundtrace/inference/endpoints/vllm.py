"""Defines a placeholder for endpoints of the kind ``vllm``. A run uses the placeholder until it has started the servers
of these endpoints. Every request to the placeholder fails.

When a run has started the servers, it replaces these endpoints by ``openai`` endpoints with the servers' URLs
(:func:`groundtrace.inference.endpoints.vllm_server.serving`).
"""

from groundtrace.inference.endpoints.openai_compatible import revision_of
from groundtrace.inference.endpoints.vllm_server import VllmServerError, find_vllm
from groundtrace.inference.request import Reply, Request
from groundtrace.inference.settings import EndpointSettings
from groundtrace.vision.media import MediaStore


class VllmEndpoint:
    """Implements an endpoint (:class:`groundtrace.inference.endpoint.Endpoint`) of the kind ``vllm`` without a server.

    A run starts the server, and then replaces this endpoint by an endpoint that uses the server. Until then, every
    request raises an error. Only cached replies can be used. They are found, because the revision in a cache key is the
    same with and without a server. ``settings`` are the settings of the endpoint. ``media`` and ``threads`` are not
    used.
    """

    def __init__(self, settings: EndpointSettings, media: MediaStore, threads: int) -> None:
        self.settings = settings

    @property
    def revision(self) -> str:
        """Return the model's version from the settings, with the seed if there is one, as a part of the cache keys.

        The revision is the same with and without a running server. So replies that were cached while the server was
        running are found without the server.
        """
        return revision_of(self.settings)

    async def generate(self, request: Request) -> Reply:
        """Raise :class:`groundtrace.inference.endpoints.vllm_server.VllmServerError`, because the endpoint has no
        server.
        """
        model = self.settings.model
        raise VllmServerError(
            f"the vllm endpoint {model!r} has no server, because a run starts a server only if its workers are on "
            "this machine: start a server yourself, and set the endpoint's kind to openai and its base_url to the "
            "server's URL"
        )

    async def check(self) -> str:
        """Find the ``vllm`` command, with which a run starts the server. Returns one line for the user with the
        command's path. Raises VllmServerError if the command is not found.
        """
        return f"a run starts {self.settings.model} with {find_vllm()}"

    async def close(self) -> None:
        """Do nothing, since no connection is open."""
