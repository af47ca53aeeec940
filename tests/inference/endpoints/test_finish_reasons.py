"""The words in which servers say how a reply ended."""

import pytest

from groundtrace.inference.endpoints.finish_reasons import Finish, finish_of

SAID = {
    "OpenAI, Azure": {"stop tool_calls function_call": Finish.COMPLETE, "length max_output_tokens": Finish.CUT}
    | {"content_filter content-filter": Finish.REFUSED, "incomplete": Finish.CUT},
    "vLLM": {"stop": Finish.COMPLETE, "length repetition": Finish.CUT, "abort error": Finish.BROKEN},
    "SGLang, LMDeploy": {"stop": Finish.COMPLETE, "length": Finish.CUT, "abort error": Finish.BROKEN},
    "llama.cpp": {"stop eos": Finish.COMPLETE, "length limit": Finish.CUT},
    "TGI": {"eos_token stop_sequence": Finish.COMPLETE, "length": Finish.CUT},
    "TensorRT-LLM": {"stop": Finish.COMPLETE, "length": Finish.CUT, "timeout cancelled": Finish.BROKEN},
    "Mistral": {"stop tool_calls": Finish.COMPLETE, "length model_length": Finish.CUT, "error": Finish.BROKEN},
    "OpenRouter": {"stop": Finish.COMPLETE, "length": Finish.CUT, "error": Finish.BROKEN},
    "Anthropic": {"end_turn tool_use stop_sequence": Finish.COMPLETE, "refusal": Finish.REFUSED}
    | {"max_tokens pause_turn model_context_window_exceeded": Finish.CUT},
    "Gemini": {"STOP": Finish.COMPLETE, "MAX_TOKENS": Finish.CUT}
    | {"SAFETY RECITATION LANGUAGE BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY": Finish.REFUSED}
    | {"OTHER MALFORMED_FUNCTION_CALL FINISH_REASON_UNSPECIFIED": Finish.BROKEN},
    "Gemini's OpenAI mode": {"content_filter:RECITATION": Finish.REFUSED}
    | {"function_call_filter:MALFORMED_FUNCTION_CALL": Finish.BROKEN},
    "DeepSeek, Zhipu": {"sensitive": Finish.REFUSED, "insufficient_system_resource network_error": Finish.BROKEN},
    "Cohere": {"COMPLETE": Finish.COMPLETE, "ERROR_LIMIT": Finish.CUT, "ERROR_TOXIC": Finish.REFUSED},
    "Bedrock": {"guardrail_intervened content_filtered": Finish.REFUSED},
}
WORDS = [(word, kind) for server in SAID.values() for words, kind in server.items() for word in words.split()]


@pytest.mark.parametrize(("word", "kind"), WORDS)
def test_known_words(word: str, kind: Finish) -> None:
    assert finish_of(word) is finish_of(f" {word.upper()} ") is finish_of(word.lower()) is kind


@pytest.mark.parametrize("word", ["", ":", "x", "stopped by the user", "null", "x: stop"])
def test_unknown_words(word: str) -> None:
    assert finish_of(word) is None
