"""Computes attention over packed sequences: several samples in one row of tokens, each attending only to itself.

transformers calls :func:`packed_attention` for the language model and for the vision tower. The function is registered
under a name that contains "flash". With such a name, transformers calls the function once for all images in the vision
tower. With any other name, transformers would call it once per image.

There are three ways to compute the attention:

- On a GPU, and if the numbers have 16 bits, a kernel for sequences of different lengths computes the attention. If this
  build of torch has such a kernel, torch's kernel is used. Otherwise, the kernel of the package FlashAttention 2 is
  used, as transformers does for ``flash_attention_2``.
- Without such a kernel, sequences that all have the same length are computed as one batch. For example, this is the
  case in the vision tower if all images have one size.
- In all other cases, each sequence is computed separately. For short sequences, this is faster than one computation
  with a mask over the whole row.
"""

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional
from transformers import AttentionInterface
from transformers.utils.import_utils import is_flash_attn_2_available

NAME = "groundtrace_flash_packed"
_FLASH_ATTENTION = "flash_attn"
"""The package with FlashAttention 2. No extra of ours installs it, because it has to be built for the GPU."""
Kernel = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, int, float | None, bool], torch.Tensor]
"""The type of an attention kernel for packed sequences, which returns the output, (T, heads, head_dim).

Its arguments are: query, key and value, each (T, heads, head_dim); the boundaries of the sequences; the length of the
longest sequence; the factor of the scores before the softmax; and whether attention is causal.
"""


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    cu_seq_lens_q: torch.Tensor | None = None,
    max_length_q: int | None = None,
    is_causal: bool | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Return the attention output within each sequence, (1, T, heads, head_dim), and None.

    ``query``, ``key`` and ``value`` are (1, heads, T, head_dim), where T is the number of tokens of all sequences.
    ``cu_seq_lens_q`` (n + 1,) int32 holds the boundaries of the n sequences, e.g. [0, 3, 7] for two sequences of 3 and
    4 tokens. ``max_length_q`` is the length of the longest sequence; None means that it is computed. ``scaling`` is the
    factor of the scores before the softmax; None means 1/√head_dim. If ``is_causal`` is True, a token attends only to
    itself and earlier tokens; None means the value of the attribute ``is_causal`` of ``module``, or True if ``module``
    has no such attribute. ``attention_mask`` and ``dropout`` are ignored.

    The second result is None, because the attention weights, which transformers expects there, are not computed. Raises
    ValueError if ``cu_seq_lens_q`` is None.
    """
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    if cu_seq_lens_q is None:
        raise ValueError(
            "packed attention was called without cu_seq_lens_q: call set_attention(model, 'sdpa') before sampling"
        )
    kernel = packed_kernel() if query.is_cuda and query.dtype in (torch.bfloat16, torch.float16) else None
    if kernel is not None:
        longest = max_length_q or int(cu_seq_lens_q.diff().max())
        q, k, v = (tensor[0].transpose(0, 1).contiguous() for tensor in (query, key, value))
        return kernel(q, k, v, cu_seq_lens_q.to(torch.int32), longest, scaling, causal)[None], None
    return _one_by_one(query, key, value, cu_seq_lens_q.diff().tolist(), causal, scaling), None


@functools.cache
def packed_kernel() -> Kernel | None:
    """Return the attention kernel for packed sequences on this machine's GPU.

    If this build of torch has such a kernel, the result is torch's kernel. Otherwise, it is the kernel of the package
    FlashAttention 2. If this package is not available either, the result is None.
    """
    if has_varlen():
        return _torch_varlen
    return _flash_attention_2 if is_flash_attn_2_available() else None


def has_varlen() -> bool:
    """Return whether this build of torch has its own attention kernel for sequences of different lengths."""
    try:
        import torch.nn.attention.varlen
    except ImportError:
        return False
    return torch.backends.cuda.is_flash_attention_available()


def _torch_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    ends: torch.Tensor,
    longest: int,
    scale: float | None,
    causal: bool,
) -> torch.Tensor:
    from torch.nn.attention.varlen import varlen_attn

    window, shared = (-1, 0) if causal else (-1, -1), q.shape[1] != k.shape[1]
    out = varlen_attn(q, k, v, ends, ends, longest, longest, scale=scale, window_size=window, enable_gqa=shared)
    assert isinstance(out, torch.Tensor)
    return out


def _flash_attention_2(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    ends: torch.Tensor,
    longest: int,
    scale: float | None,
    causal: bool,
) -> torch.Tensor:
    flash_attn: Any = importlib.import_module(_FLASH_ATTENTION)
    return flash_attn.flash_attn_varlen_func(q, k, v, ends, ends, longest, longest, softmax_scale=scale, causal=causal)


def _one_by_one(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, lengths: list[int], causal: bool, scaling: float | None
) -> torch.Tensor:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        shared = q.shape[1] != k.shape[1]
        return functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scaling, enable_gqa=shared)

    if len(set(lengths)) == 1:
        batch = [tensor[0].unflatten(1, (len(lengths), -1)).transpose(0, 1) for tensor in (query, key, value)]
        return attend(*batch).transpose(1, 2).flatten(0, 1)[None]
    parts = zip(*(tensor.split(lengths, dim=2) for tensor in (query, key, value)), strict=True)
    return torch.cat([attend(*part).transpose(1, 2) for part in parts], dim=1)


AttentionInterface.register(NAME, packed_attention)
