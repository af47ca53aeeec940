"""What OpenAI's own client says of a server: the tools that people use beside this one talk through it.

`beam validate` asks with it after :mod:`groundtrace.inference.endpoints.openai_compatible`, by which runs ask. Where a
server answers that one and not the client, it is worth knowing before other tools are pointed at it.
"""

from groundtrace.inference.endpoints.keys import api_key, scrub
from groundtrace.inference.settings import EndpointSettings


async def official_client_note(settings: EndpointSettings) -> str:
    """Returns what is wrong with the server's list of models as OpenAI's client reads it, in one line without the key;
    "" where nothing is. Redirects are not followed, which would take the key along.
    """
    import openai  # half a second, which a run does without

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
            told = " ".join(str(error).split())[:200]
            return scrub(f"OpenAI's own client cannot list its models: {type(error).__name__}: {told}", key)
        except (AttributeError, TypeError, ValueError) as error:  # a list in another form than the client's
            return f"OpenAI's own client cannot read its list of models: {type(error).__name__}"
    if settings.check_model and settings.model not in models:
        return f"OpenAI's own client does not find {settings.model} among its models"
    return ""
