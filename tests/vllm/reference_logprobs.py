"""What transformers says of continuations' log-probabilities: the truth that the server's are compared with.

Run by the interpreter that has torch and transformers: ``python reference_logprobs.py MODEL_DIR < CASES > LOGPROBS``.
CASES is a JSON list of objects with ``messages`` (content parts; a picture is ``{"type": "image", "path": …}``),
``given`` and ``text``; LOGPROBS a list of lists, the log-probability in nats of each token of ``text``.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import json
import os
import sys
from typing import Any

import torch
from PIL import Image
from transformers import AutoProcessor, Qwen3VLForConditionalGeneration


@torch.no_grad()
def logprobs(model: Qwen3VLForConditionalGeneration, processor: Any, case: dict[str, Any]) -> list[float]:
    """One forward pass over the conversation with the reply at its end; float64 in the softmax."""
    header = processor.apply_chat_template(case["messages"], add_generation_prompt=True, tokenize=False)
    parts = [part for message in case["messages"] for part in message["content"]]
    images = [Image.open(part["path"]).convert("RGB") for part in parts if part["type"] == "image"] or None

    def encoded(reply: str) -> Any:
        return processor(text=[header + reply], images=images, return_tensors="pt")

    begun = encoded(case["given"])["input_ids"][0].tolist()
    inputs = encoded(case["given"] + case["text"])
    ids = inputs["input_ids"][0].tolist()
    first = next((at for at, (a, b) in enumerate(zip(begun, ids, strict=False)) if a != b), len(begun))
    scores = model(**inputs).logits[0].double().log_softmax(-1)
    # The logits at a position are of the token that follows it.
    return [scores[at - 1, ids[at]].item() for at in range(first, len(ids))]


def main(arguments: list[str]) -> int:
    """Command line: one argument, the model's folder; the cases on standard input. Returns the exit status."""
    (model_dir,) = arguments
    # Warnings that libraries print mustn't get in between the numbers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    model = Qwen3VLForConditionalGeneration.from_pretrained(model_dir, dtype=torch.float32).eval()
    processor = AutoProcessor.from_pretrained(model_dir)
    json.dump([logprobs(model, processor, case) for case in json.load(sys.stdin)], out)
    out.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
