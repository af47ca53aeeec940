"""Estimates how many tokens a request will use. The rate limits need this estimate before the request is sent."""

from groundtrace.inference.request import Reply, Request, estimated_tokens


class Sizes:
    """Estimates how many tokens a request to one endpoint will use. The estimate is computed from the earlier requests
    that were made from the same prompt template (the same ``prompt.name``). All methods run on one event loop.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int, int, int]] = {}

    def expected(self, request: Request, n: int) -> int:
        """Return the expected number of tokens (input plus output) of ``request`` with ``n`` samples (replies to its
        prompt). The estimate uses the averages of the earlier replies to the same prompt template (the same
        ``prompt.name``).

        Before the first such reply, the result is the largest number of tokens that the request may use. With a lower
        guess, many requests that start together could exceed the rate limits.
        """
        if request.prompt.name not in self._seen:
            return estimated_tokens(request.prompt) + n * (request.continuation is None) * request.sampling.max_tokens
        requests, tokens_in, samples, tokens_out = self._seen[request.prompt.name]
        return round(tokens_in / requests + n * tokens_out / samples)

    def saw(self, request: Request, reply: Reply) -> None:
        """Record the tokens that ``request`` used, for later estimates. ``reply`` is its reply."""
        requests, tokens_in, samples, tokens_out = self._seen.get(request.prompt.name, (0, 0, 0, 0))
        self._seen[request.prompt.name] = (
            requests + 1,
            tokens_in + reply.usage.tokens_in,
            samples + len(reply.completions),
            tokens_out + reply.usage.tokens_out,
        )
