"""The choice of the kernel for packed sequences, and FlashAttention's arguments against attention one by one."""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch

from groundtrace.trainer import attention
from groundtrace.trainer.attention import packed_attention, packed_kernel


@pytest.fixture(autouse=True)
def fresh_choice() -> Iterator[None]:
    packed_kernel.cache_clear()
    yield
    packed_kernel.cache_clear()


@pytest.mark.parametrize(
    ("has_varlen", "has_flash_attention", "expected"),
    [
        (True, True, attention._torch_varlen),
        (True, False, attention._torch_varlen),
        (False, True, attention._flash_attention_2),
        (False, False, None),
    ],
)
def test_the_kernel(
    monkeypatch: pytest.MonkeyPatch, has_varlen: bool, has_flash_attention: bool, expected: Any
) -> None:
    monkeypatch.setattr(attention, "has_varlen", lambda: has_varlen)
    monkeypatch.setattr(attention, "is_flash_attn_2_available", lambda: has_flash_attention)
    assert packed_kernel() is expected


def test_a_torch_without_the_module_has_no_varlen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", None)
    assert not attention.has_varlen()


def test_a_reduced_build_of_torch_has_no_varlen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: False)
    assert not attention.has_varlen()


@pytest.mark.parametrize("causal", [True, False])
def test_flash_attention_gets_the_sequences(monkeypatch: pytest.MonkeyPatch, causal: bool) -> None:
    """A stand-in with the signature of flash-attn 2 computes each sequence by hand; heads of keys are shared."""

    def varlen(q: Any, k: Any, v: Any, ends_q: Any, ends_k: Any, longest_q: int, longest_k: int, **options: Any) -> Any:
        assert ends_q.dtype == torch.int32 and torch.equal(ends_q, ends_k)
        assert longest_q == longest_k == int(ends_q.diff().max())
        assert options == {"softmax_scale": 0.3, "causal": causal}
        parts = []
        for start, end in zip(ends_q[:-1].tolist(), ends_q[1:].tolist(), strict=True):
            a, b, c = (x[start:end].transpose(0, 1) for x in (q, k, v))
            b, c = (x.repeat_interleave(a.shape[0] // x.shape[0], 0) for x in (b, c))
            scores = 0.3 * a @ b.transpose(1, 2)
            if causal:
                later = torch.ones(end - start, end - start, dtype=torch.bool).triu(1)
                scores = scores.masked_fill(later, -torch.inf)
            parts.append((scores.softmax(-1) @ c).transpose(0, 1))
        return torch.cat(parts)

    flash_attn = ModuleType("flash_attn")
    flash_attn.flash_attn_varlen_func = varlen  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flash_attn", flash_attn)
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 4, 9, 8), torch.randn(1, 2, 9, 8), torch.randn(1, 2, 9, 8)
    ends = torch.tensor([0, 2, 9], dtype=torch.int32)
    one_by_one, _ = packed_attention(torch.nn.Module(), q, k, v, None, 0.3, cu_seq_lens_q=ends, is_causal=causal)
    q, k, v = (x[0].transpose(0, 1).contiguous() for x in (q, k, v))
    torch.testing.assert_close(attention._flash_attention_2(q, k, v, ends, 7, 0.3, causal)[None], one_by_one)
