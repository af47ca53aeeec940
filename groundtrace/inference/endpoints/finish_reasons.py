"""Sorts the finish reasons of chat servers: which replies are complete, truncated, refused, or broken off by a failure.

The module knows the finish reasons of these services: OpenAI, Azure, Anthropic, Gemini, Mistral, Cohere, DeepSeek,
Zhipu, Amazon Bedrock, OpenRouter and Together. For Gemini, it knows those of Gemini's own API, of its OpenAI mode and
of Vertex. It also knows the finish reasons of these servers: vLLM, SGLang, LMDeploy, llama.cpp, TGI, TensorRT-LLM and
LiteLLM. Upper and lower case make no difference, and "-" is treated like "_".
"""

from enum import Enum, auto


class Finish(Enum):
    """Lists the kinds of finish reasons, which state why a server ended a reply. ``COMPLETE`` means that the model
    ended it. ``CUT`` means that the reply was truncated, e.g. by its token limit. ``REFUSED`` means that the model or a
    filter declined to answer. ``BROKEN`` means that the server failed while it generated the reply, so the text may end
    anywhere.
    """

    COMPLETE = auto()
    CUT = auto()
    REFUSED = auto()
    BROKEN = auto()


# pause_turn (Anthropic) and compaction end a turn that is to be continued. vLLM ends a text that repeats itself with
# repetition. limit is llama.cpp's own word, error_limit Cohere's.
_WORDS = {
    Finish.COMPLETE: "stop eos eos_token stop_sequence end_turn complete completed tool_calls tool_use function_call",
    Finish.CUT: """length max_tokens max_output_tokens max_completion_tokens max_new_tokens max_length model_length
        context_length model_context_window_exceeded token_limit limit error_limit incomplete pause_turn compaction
        repetition""",
    Finish.REFUSED: """content_filter content_filtered refusal refused safety recitation language blocklist
        prohibited_content spii image_safety image_prohibited_content image_recitation model_armor escalation sensitive
        guardrail_intervened error_toxic""",
    Finish.BROKEN: """error abort aborted cancel cancelled canceled user_cancel timeout failed network_error
        insufficient_system_resource other unknown finish_reason_unspecified function_call_filter
        malformed_function_call unexpected_tool_call too_many_tool_calls missing_thought_signature malformed_response
        malformed_model_output malformed_tool_use no_image image_other""",
}
_KINDS = {word: kind for kind, words in _WORDS.items() for word in words.split()}


def finish_of(reason: str) -> Finish | None:
    """Return the kind of a server's finish reason; None for an unknown word.

    Gemini's OpenAI mode writes details after a colon ("content_filter: RECITATION"), which are ignored.
    """
    return _KINDS.get(reason.partition(":")[0].strip().lower().replace("-", "_"))
