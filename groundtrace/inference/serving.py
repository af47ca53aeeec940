"""Starts the model servers that a run needs on its own machine. Only some kinds of endpoints, such as ``vllm``, have
such servers.

The ``server`` of a :class:`groundtrace.inference.endpoint.Kind` is a context manager ``(models, log_folder) ->
models``. It starts the servers of all endpoints of its kind. It yields settings in which these endpoints have a URL and
another kind, such as ``openai``. At the end of the ``with`` statement it stops the servers.
"""

import contextlib
from collections.abc import Iterator

from groundtrace.inference.endpoint import kind_of
from groundtrace.inference.settings import ModelsSettings
from groundtrace.schemas.registry import load


def kinds_to_serve(models: ModelsSettings) -> tuple[str, ...]:
    """Return the endpoint kinds, such as "vllm", for which a run has to start servers on its machine, sorted by name.
    ``models`` are the settings of the endpoints and roles (jobs of a model, such as "judge"). Endpoints without a role
    are ignored. The result is empty if no server is needed.
    """
    kinds = {models.endpoint(role).kind for role, _ in models.roles}
    return tuple(sorted(kind for kind in kinds if kind_of(kind).server))


@contextlib.contextmanager
def started_servers(models: ModelsSettings, log_folder: str) -> Iterator[ModelsSettings]:
    """Start all model servers that a run needs on this machine, and stop them when the ``with`` statement ends. Yields
    a copy of the settings ``models`` in which the endpoints have the URLs of these servers. The servers write their
    output to files in ``log_folder``.

    Only workers on this machine can use the servers. Raises :class:`groundtrace.schemas.errors.UserError` if a server
    cannot be started.
    """
    with contextlib.ExitStack() as stack:
        for kind in kinds_to_serve(models):
            models = stack.enter_context(load(kind_of(kind).server)(models, log_folder))
        yield models
