"""Checks a server with OpenAI's own client, because users' other tools use this client.

``beam validate`` calls this module after the endpoint's own check
(:mod:`groundtrace.inference.endpoints.openai_compatible`). Only the endpoint's own check decides whether a run can use
the server. A server may pass the endpoint's own check, but fail with OpenAI's client. Users should know this before
they use the server with other tools.
"""

from groundtrace.inference.endpoints.keys import api_key, scrub
from groundtrace.inference.settings import EndpointSettings


async def official_client_note(settings: EndpointSettings) -> str:
    """Request a server's list of models with OpenAI's client, and describe the problem if there is one. ``settings``
    are the settings of the endpoint. Returns one line for the user, which never contains the API key. Returns "" if
    the client works and finds the endpoint's model in the list. If the setting ``check_model`` is False, the model is
    not searched for. Redirects are not followed, so that the key is never sent to another server.
    """
    import openai  # takes half a second, which a run does not need

    key = api_key(settings)
    http = openai.DefaultAsyncHttpxClient(follow_redirects=False, trust_env=False)
    timeout = openai.Timeout(settings.read_timeout_s, connect=settings.connect_timeout_s)
    client = openai.AsyncOpenAI(
        base_url=settings.base_url, api_key=key or "none", max_retries=0, timeout=timeout, http_client=http
    )
    async with client:
        try:
            models = [model.id async for model in client.models.list()]
        except openai.OpenAIError as error:
            message = " ".join(str(error).split())[:200]
            return scrub(f"OpenAI's own client cannot list the server's models: {type(error).__name__}: {message}", key)
        except (AttributeError, TypeError, ValueError) as error:  # the list has another form than the client expects
            return f"OpenAI's own client cannot read the server's list of models: {type(error).__name__}"
    if settings.check_model and settings.model not in models:
        return f"OpenAI's own client does not find {settings.model} among the server's models"
    return ""
