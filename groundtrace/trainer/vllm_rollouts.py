"""Samples from a vLLM server: sends it token ids and image patches, and gets token ids with log-probabilities.

The API call ``/inference/v1/generate`` accepts the same ids and patches that the trainer trains on. So the server does
not use its chat template, its tokenizer or its image processor to make a prompt. The later turns of a response do not
need them either: the next prompt has the ids that the server returned, the ids of the observation (such as a tool's
result), and the patches of all images in the prompt. No other HTTP call of vLLM accepts ids together with images:
``/v1/completions`` accepts only ids, and the chat API does not accept ids.

Start the server with

    VLLM_SERVER_DEV_MODE=1 vllm serve MODEL --enable-scale-out --logprobs-mode processed_logprobs \\
        --no-mm-device-do-normalize --generation-config vllm …

``VLLM_SERVER_DEV_MODE=1`` and ``--enable-scale-out`` enable the API calls used here. With ``--logprobs-mode
processed_logprobs``, log-probabilities are those of the distribution from which tokens are drawn. Without
``--no-mm-device-do-normalize``, patches would be normalised a second time. With ``--generation-config vllm``, the
server ignores the checkpoint's sampling defaults, such as a repetition penalty. Each request also switches such
defaults off. This module was tested with vLLM 0.32.

Sampling from the server differs from sampling in this process:

- The server ends a turn at a text such as ``</code>``. But it may already have drawn further tokens after this text. So
  the turn is cut after the token that completes the text (:func:`groundtrace.trainer.sampler.turn_length`). The tokens
  that are cut off are neither executed nor trained on. Only whole tokens are cut off: if the last token of the turn has
  further characters after the text, they are kept.
- The request for each turn sends all images of its prompt again, as float32 patches. If the server's caches are large
  enough, the server encodes each image once, and keeps the keys and values of the earlier turns.
- The server's numerical results depend on how it batches requests. So the same seed gives the same responses only if
  the batches are the same.
"""

import asyncio
import base64
import datetime
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgpack
import torch

from groundtrace.inference.endpoints.wire import failure_of, retry_after_s
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.flow.retry import retried
from groundtrace.trainer import ranks
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.sample import EncodedImage, Rollout, Sample
from groundtrace.trainer.sampler import Place, Sampler, SamplerError, Take, seed_of, turn_length
from groundtrace.trainer.settings import RolloutSettings

GENERATE = "/inference/v1/generate"
KEY_ENV = "VLLM_API_KEY"
RAW_VIEW = 3
"""The code of the msgpack extension type that vLLM uses for a tensor's bytes."""
MAX_RETRIES = 9
BUSY = (429, 503)
NEVER = -1e9
"""The bias on the logit of a banned token, which makes its probability 0 in float32."""
NOT_A_NUMBER = -9999.0
"""The value that the server returns for a log-probability that is NaN."""


class VllmSampler(Sampler):
    """Samples responses from the vLLM server at ``rollout.base_url``.

    At most ``rollout.prompts_at_once`` requests wait for the server at the same time. The API key, if any, is read from
    the environment variable ``VLLM_API_KEY``. The same weights and seed give the same responses only if the server's
    numerical results do not depend on which requests it processes together.
    """

    def __init__(
        self,
        vlm: VisionLanguageModel,
        settings: RolloutSettings,
        weights_folder: str,
        stops: Sequence[str] = (),
        max_tokens: int = 0,
    ) -> None:
        """Prepare the sampler, without a request to the server.

        ``weights_folder`` is the folder to which the weights of the model in training are written; the server must be
        able to read it under the same path. A turn ends with the model's end token or with one of the texts in
        ``stops``. The server must accept sequences of ``max_tokens`` tokens. This is checked at the first request; 0
        switches the check off.
        """
        self._vlm, self._settings, self._stops, self._max_tokens = vlm, settings, stops, max_tokens
        self.prompts_at_once = settings.prompts_at_once
        self._folder = Path(weights_folder).resolve()
        self._root = settings.base_url.rstrip("/").removesuffix("/v1")
        self._is_checked = False

    def sample(self, prompts: Sequence[Sample], n: int, seed: int) -> list[list[Rollout]]:
        """Return ``n`` sampled turns (answers of the model) for each prompt, in the order of the prompts.

        A turn has its token ids and their log-probabilities. ``seed`` is the seed of the sampling. Raises SamplerError
        if the server fails.
        """
        found: dict[Place, Rollout] = {}

        async def note(place: Place, turn: Rollout) -> None:
            found[place] = turn

        self.play(prompts, n, seed, note)
        return [[found[index, number] for number in range(n)] for index in range(len(prompts))]

    def play(self, prompts: Sequence[Sample], n: int, seed: int, take: Take) -> None:
        """Draw ``n`` complete responses to each prompt, turn by turn. A turn is one answer of the model.

        ``take`` is a function of the caller that collects the responses. It is called with each new turn and with the
        place of its response. A place has two numbers: the index of the prompt, and the index of the response among the
        responses to this prompt. ``take`` returns the prompt of the response's next turn, or None if the response has
        ended. The next turn is requested immediately, without waiting for other responses. ``seed`` is the seed of the
        sampling. Raises SamplerError if the server fails.
        """
        asyncio.run(self._play(prompts, n, seed, take))

    def sync(self) -> None:
        """Save the weights of the model in training, and make the server load them.

        Raises SamplerError if the server fails. In a training on several GPUs, all ranks (the processes of the GPUs)
        must call this method. The first rank sends the request, and all ranks sample from the same server. The server
        first finishes the requests that it is working on. The server then clears its caches of prompts and images,
        because these were computed with the old weights.
        """
        self._vlm.save(self._folder)
        ranks.together(lambda: asyncio.run(self._reload()) if ranks.is_first() else None)

    def request(self, prompt: Sample, n: int, seed: int) -> dict[str, Any]:
        """Return the body of the HTTP request for ``n`` turns (answers of the model) to a prompt.

        The server uses the seeds ``seed`` to ``seed + n - 1`` for these turns.
        """
        body: dict[str, Any] = {
            "token_ids": prompt.ids.tolist(),
            "return_token_ids": True,
            "sampling_params": {
                "n": n,
                "seed": seed,
                "temperature": self._settings.temperature,
                "top_p": 1.0,
                "top_k": 0,
                "min_p": 0.0,
                "repetition_penalty": 1.0,
                "presence_penalty": 0.0,
                "frequency_penalty": 0.0,
                "min_tokens": 0,
                "max_tokens": self._settings.max_new_tokens - prompt.response_tokens,
                "stop_token_ids": list(self._vlm.end_ids),
                "logit_bias": {str(token): NEVER for token in self._vlm.never_ids},
                "logprobs": 0,
                "detokenize": bool(self._stops),
                "skip_special_tokens": False,
            },
        }
        if self._stops:
            body["sampling_params"] |= {"stop": list(self._stops), "include_stop_str_in_output": True}
        if self._settings.served_name:
            body["model"] = self._settings.served_name
        if prompt.images:
            body["features"] = _features(prompt)
        return body

    async def _play(self, prompts: Sequence[Sample], n: int, seed: int, take: Take) -> None:
        places = asyncio.Semaphore(self._settings.prompts_at_once)
        async with self._session() as session:

            async def draw(prompt: Sample, count: int, *seeds: int) -> list[Rollout]:
                body = self.request(prompt, count, seed_of(seed, *seeds))
                async with places:
                    reply = await self._ask(session, GENERATE, body)
                return self._turns(body, reply, count)

            async def go_on(index: int, number: int, turn: Rollout) -> None:
                count = 1
                while (prompt := await take((index, number), turn)) is not None:
                    [turn] = await draw(prompt, 1, index, number, count)
                    count += 1

            async def begin(index: int, prompt: Sample) -> None:
                turns = await draw(prompt, n, index)
                await asyncio.gather(*(go_on(index, number, turn) for number, turn in enumerate(turns)))

            await asyncio.gather(*(begin(*numbered) for numbered in enumerate(prompts)))

    async def _reload(self) -> None:
        async with self._session() as session:
            await self._ask(session, "/pause?mode=wait")
            try:
                load = {"method": "reload_weights", "kwargs": {"weights_path": str(self._folder)}}
                await self._ask(session, "/collective_rpc", load)
            except SamplerError as error:
                hint = (
                    f"make {self._folder} readable for the server, and restart it, since it may lack some new weights"
                )
                raise SamplerError(f"{error}; {hint}") from error
            finally:
                await self._ask(session, "/resume")

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[aiohttp.ClientSession]:
        key = os.environ.get(KEY_ENV)
        async with aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=aiohttp.ClientTimeout(total=self._settings.timeout_s),
            connector=aiohttp.TCPConnector(limit=0),
        ) as session:
            if not self._is_checked:
                await self._check(session)
            yield session

    async def _check(self, session: aiohttp.ClientSession) -> None:
        """Raise SamplerError if options of the server would change log-probabilities or images, or cut sequences."""
        path = "/server_info?config_format=json"
        try:
            model = (await self._ask(session, path, method="GET"))["vllm_config"]["model_config"]
            mode, media = model["logprobs_mode"], model["multimodal_config"] or {}
            longest = model["max_model_len"]
        except (KeyError, TypeError) as error:
            raise self._error(
                path, f"the server's reply does not have the expected fields ({error}): use vLLM 0.32 or later"
            ) from error
        if mode != "processed_logprobs":
            raise self._error(
                path,
                "its log-probabilities are not those of the sampled tokens: start the server with --logprobs-mode "
                "processed_logprobs",
            )
        if media.get("mm_device_do_normalize"):
            raise self._error(
                path,
                "it would normalise image patches a second time: start the server with --no-mm-device-do-normalize",
            )
        if longest < self._max_tokens:
            raise self._error(
                path,
                f"its --max-model-len must be at least batch.max_tokens = {self._max_tokens}, but is {longest}: start "
                "the server with a larger one, or lower batch.max_tokens",
            )
        self._is_checked = True

    async def _ask(self, session: aiohttp.ClientSession, path: str, body: Any = None, method: str = "POST") -> Any:
        """Send a request to the vLLM server, and return the JSON of its reply.

        ``path`` is the path of the API call, ``body`` is the JSON body (None for no body), and ``method`` is the HTTP
        method.

        The request is sent again if the server is unreachable or too busy. Raises SamplerError if the last retry fails
        too. For any other problem, SamplerError is raised without a retry.
        """
        try:
            return await retried(lambda: self._ask_once(session, path, body, method), MAX_RETRIES)
        except CallError as error:
            raise self._error(path, error.message) from error

    async def _ask_once(self, session: aiohttp.ClientSession, path: str, body: Any, method: str) -> Any:
        """Send a request to the vLLM server once, and return the JSON of the reply.

        The arguments are those of :meth:`_ask`. If the request fails, CallError is raised if a repetition can help, and
        SamplerError otherwise.
        """
        try:
            async with session.request(method, self._root + path, json=body) as reply:
                if reply.status == 200:
                    return await reply.json(content_type=None)
                cause = f"it answered with status {reply.status}: {_line(await reply.text())}"
                if reply.status in BUSY:
                    after_s = retry_after_s(reply.headers.get("retry-after", ""), datetime.datetime.now(datetime.UTC))
                    raise CallError(failure_of(reply.status), cause, retry_after_s=after_s)
                if reply.status == 404 and path != GENERATE:
                    cause += "; start the server with VLLM_SERVER_DEV_MODE=1"
                raise self._error(path, cause)
        except TimeoutError as error:
            raise self._error(
                path,
                f"the server sent no answer in rollout.timeout_s = {self._settings.timeout_s:g} s: raise this limit",
            ) from error
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as error:
            raise CallError(
                Failure.CONNECTION, _line(f"the connection failed: {type(error).__name__}: {error}")
            ) from error
        except (aiohttp.ClientError, ValueError) as error:
            raise self._error(
                path, f"its reply is not JSON ({_line(str(error))}): set rollout.base_url to a vLLM server"
            ) from error

    def _turns(self, body: dict[str, Any], reply: Any, n: int) -> list[Rollout]:
        try:
            if reply["prompt_token_ids"] != body["token_ids"]:
                raise self._error(GENERATE, "the server's reply belongs to another prompt: use vLLM 0.32 or later")
            choices = sorted(reply["choices"], key=lambda choice: choice["index"])
            found = [self._turn(choice) for choice in choices]
        except (KeyError, TypeError) as error:
            raise self._error(
                GENERATE, f"the server's reply does not have the expected fields ({error}): use vLLM 0.32 or later"
            ) from error
        if len(found) != n:
            raise self._error(GENERATE, f"it sent {len(found)} answers instead of {n}: use vLLM 0.32 or later")
        return found

    def _turn(self, choice: dict[str, Any]) -> Rollout:
        reason, ids = choice["finish_reason"], tuple(choice["token_ids"])
        drawn = choice["logprobs"]["content"]
        logprobs = tuple(token["logprob"] for token in drawn)
        if reason not in ("stop", "length"):
            raise self._error(
                GENERATE,
                f"an answer ended with the finish reason {reason!r} instead of stop or length: read the server's log",
            )
        if not ids or ids != tuple(token["token_id"] for token in drawn):
            raise self._error(
                GENERATE, "its log-probabilities do not belong to the tokens of the answer: use vLLM 0.32 or later"
            )
        length, has_ended = turn_length(self._vlm, ids, self._stops)
        if reason == "stop" and not has_ended:
            raise self._error(
                GENERATE,
                f"an answer stopped at token {ids[-1]}, which is not an end token of the model in training: start "
                "the server with the model in model.path",
            )
        if min(logprobs) <= NOT_A_NUMBER:
            raise self._error(GENERATE, "it sent a log-probability that is NaN: check that all weights are finite")
        return Rollout(ids[:length], not has_ended, logprobs[:length])

    def _error(self, path: str, cause: str) -> SamplerError:
        return SamplerError(f"the vLLM server at {self._root} ({path.partition('?')[0]}): {cause}")


def _features(prompt: Sample) -> dict[str, Any]:
    """Return the field ``features`` of the HTTP request: the hashes, the token ranges and the data of the images.

    The token range of an image is its place in the prompt.
    """
    places, ranges = prompt.is_image.nonzero()[:, 0].tolist(), []
    for image in prompt.images:
        ranges.append({"offset": places[0], "length": image.tokens})
        places = places[image.tokens :]
    return {
        "mm_hashes": {"image": ["-".join(map(str, (image.key, *image.grid))) for image in prompt.images]},
        "mm_placeholders": {"image": ranges},
        "kwargs_data": {"image": [packed_image(image) for image in prompt.images]},
    }


def _line(text: str) -> str:
    return " ".join(text.split())[:300]


def packed_image(image: EncodedImage) -> str:
    """Return an image's patches and grid as a text, in the format that the API call ``/inference/v1/generate`` accepts.

    Patches and grid are packed with msgpack and base64. The format is that of the function ``encode_mm_kwargs_item`` in
    vLLM 0.32, which vLLM's endpoint ``/render`` uses. The names of the fields are those of the Qwen-VL models.
    """
    whole = [[0, len(image.patches), None]]
    fields = {
        "pixel_values": _field(image.patches, "flat", {"slices": whole, "dim": 0, "keep_on_cpu": False}),
        "image_grid_thw": _field(torch.tensor(image.grid), "batched", {"keep_on_cpu": True}),
    }
    packed = msgpack.packb(fields)
    assert packed is not None
    return base64.b64encode(packed).decode("ascii")


def _field(tensor: torch.Tensor, kind: str, how: dict[str, Any]) -> dict[str, Any]:
    name = str(tensor.dtype).removeprefix("torch.")
    data = msgpack.ExtType(RAW_VIEW, tensor.cpu().numpy().tobytes())
    return {"data": [name, list(tensor.shape), data], "field": [kind, how]}
