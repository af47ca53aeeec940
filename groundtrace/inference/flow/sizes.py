"""How many tokens a request will take, which limits a minute want to know before it is sent."""

from groundtrace.inference.request import Reply, Request, estimated_tokens


class Sizes:
    """The tokens that an endpoint's requests took, by prompt. Used on one event loop."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int, int, int]] = {}

    def expected(self, request: Request, n: int) -> int:
        """The tokens of ``n`` samples of a request, from what others of its prompt took.

        Before one of them has come it is as many as they may take at most: of many requests that begin together all
        would be underestimated.
        """
        if request.prompt.name not in self._seen:
            return estimated_tokens(request.prompt) + n * (request.continuation is None) * request.sampling.max_tokens
        requests, tokens_in, samples, tokens_out = self._seen[request.prompt.name]
        return round(tokens_in / requests + n * tokens_out / samples)

    def saw(self, request: Request, reply: Reply) -> None:
        """A reply has come with all its samples."""
        requests, tokens_in, samples, tokens_out = self._seen.get(request.prompt.name, (0, 0, 0, 0))
        self._seen[request.prompt.name] = (
            requests + 1,
            tokens_in + reply.usage.tokens_in,
            samples + len(reply.completions),
            tokens_out + reply.usage.tokens_out,
        )
