"""Endpoints of the kind ``vllm`` before a run has started their server: they cannot be called yet.

A run replaces them by ``openai`` endpoints (:func:`groundtrace.inference.endpoints.vllm_server.serving`).
"""

from groundtrace.inference.endpoints.openai_compatible import revision_of
from groundtrace.inference.endpoints.vllm_server import VllmServerError, find_vllm
from groundtrace.inference.request import Reply, Request
from groundtrace.inference.settings import EndpointSettings
from groundtrace.vision.media import MediaStore


class VllmEndpoint:
    """An endpoint (:class:`groundtrace.inference.endpoint.Endpoint`) whose server was not started: it has a revision,
    but no call succeeds.
    """

    def __init__(self, settings: EndpointSettings, media: MediaStore, threads: int) -> None:
        self.settings = settings

    @property
    def revision(self) -> str:
        """The revision that the endpoint's server will have, so that the cache finds replies of earlier runs."""
        return revision_of(self.settings)

    async def generate(self, request: Request) -> Reply:
        """Raise :class:`groundtrace.inference.endpoints.vllm_server.VllmServerError` for every request."""
        model = self.settings.model
        raise VllmServerError(f"the vllm endpoint {model!r} has no server: only a run on this machine starts one")

    async def check(self) -> str:
        """Search for the command that a run starts; raises VllmServerError if it is not found."""
        return f"a run starts {self.settings.model} with {find_vllm()}"

    async def close(self) -> None:
        """Do nothing."""
