"""A chat template with tools, as Qwen's models have it, for processors of tests that have none."""

from typing import Any

TEMPLATE = """
{%- macro parts(content) -%}
    {%- if content is string -%}{{ content }}
    {%- else -%}
        {%- for part in content -%}
            {{- "<|vision_start|><|image_pad|><|vision_end|>" if part.type == "image" else part.text -}}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- if tools -%}{{ "<|im_start|>system\\n" ~ (tools | tojson) ~ "<|im_end|>\\n" }}{%- endif -%}
{%- for message in messages -%}
    {%- if message.role == "tool" -%}
        {{ "<|im_start|>user\\n<tool_response>\\n" ~ parts(message.content) ~ "\\n</tool_response><|im_end|>\\n" }}
    {%- else -%}
        {{ "<|im_start|>" ~ message.role ~ "\\n" ~ parts(message.content) }}
        {%- for call in message.tool_calls or [] -%}
            {{ "\\n<tool_call>\\n" ~ (call.function | tojson) ~ "\\n</tool_call>" }}
        {%- endfor -%}
        {{ "<|im_end|>\\n" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ "<|im_start|>assistant\\n" }}{%- endif -%}
"""


def with_tools(processor: Any, template: str = TEMPLATE) -> Any:
    """The processor with a template that has tools."""
    processor.chat_template = processor.tokenizer.chat_template = template
    return processor


def text_of(tokenizer: Any, ids: Any) -> str:
    """The text of token ids, each image as one token."""
    text = tokenizer.decode(ids)
    while "<|image_pad|><|image_pad|>" in text:
        text = text.replace("<|image_pad|><|image_pad|>", "<|image_pad|>")
    return text
