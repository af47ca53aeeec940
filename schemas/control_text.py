"""Finds control text: special tokens of models, and characters that change how a text is displayed or read.

A tokenizer turns ``<|im_end|>`` in a text into the token that ends a turn. Training code replaces ``<image>`` in a text
by an image. A terminal executes ESC sequences, a bidirectional mark changes the order of the displayed text, and U+FFFD
replaces a character that was decoded wrongly. Text that a model learns from must not contain control text. This module
defines which text is control text. The check of a response's form (:mod:`groundtrace.rewards.form`), cleaning, exports,
labels and quotations use this definition.

The module has one list of special tokens for each model family, from ``tokenizer_config.json`` and from the chat
template. In the lists, ``{n}`` is any number. Tokens of other model families are found if they have the form ``<|…|>``.

Two kinds of tags are not control text. The first kind is the tags of this project's responses: ``<think>``,
``<answer>``, ``<judge>``, ``<points>`` and ``<box>``. Some of these tags are tokens of some models (Qwen3, InternVL,
MiniCPM-V). The second kind is the tags of tool calls (``<tool_call>``), because they are part of the text of a
trajectory (a response with code).
"""

import re
from collections.abc import Iterable, Mapping

_CHATML = "<|endoftext|> <|im_start|> <|im_end|>"
_GROUNDED = "<img> </img> <ref> </ref> <quad> </quad>"
_FAMILIES = {
    "loaders": """<image> </image> <image_{n}> <image{n}> <video> </video> <video_{n}> <video{n}> <audio> </audio>
        <audio_{n}>""",
    "qwen": f"""{_CHATML} {_GROUNDED} <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|> <|quad_start|>
        <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|> <|fim_prefix|>
        <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|>""",
    "gemma": """<pad> <bos> <eos> <unk> <mask> <2mass> [@BOS@] <unused{n}> <start_of_turn> <end_of_turn>
        <start_of_image> <end_of_image> <image_soft_token> <start_of_audio> <end_of_audio> <audio_soft_token> <|turn>
        <turn|> <|channel> <channel|> <|image> <image|>""",
    "paligemma": "<loc{n}> <seg{n}>",
    "llama": """<s> </s> <unk> [INST] [/INST] <<SYS>> <</SYS>> <|begin_of_text|> <|end_of_text|> <|start_header_id|>
        <|end_header_id|> <|eot_id|> <|eom_id|> <|python_tag|> <|finetune_right_pad_id|> <|reserved_special_token_{n}|>
        <|image|> <|header_start|> <|header_end|> <|eot|> <|image_start|> <|image_end|> <|patch|>""",
    "llava": "<im_start> <im_end> <im_patch> <image_placeholder>",
    "mistral": """<s> </s> <unk> <pad> <SPECIAL_{n}> [INST] [/INST] [IMG] [IMG_BREAK] [IMG_END] [TOOL_CALLS]
        [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CONTENT] [SYSTEM_PROMPT]
        [/SYSTEM_PROMPT] [BEGIN_AUDIO] [PREFIX] [MIDDLE] [SUFFIX]""",
    "internvl": f"""{_CHATML} {_GROUNDED} <IMG_CONTEXT> <|action_start|> <|action_end|> <|interpreter|> <|plugin|> <s>
        </s> <unk>""",
    "glm": """<|endoftext|> [MASK] [gMASK] [sMASK] <sop> <eop> <|system|> <|user|> <|assistant|> <|observation|>
        <|begin_of_image|> <|end_of_image|> <|begin_of_video|> <|end_of_video|> <|begin_of_audio|> <|end_of_audio|>
        <|image|> <|video|> <|begin_of_box|> <|end_of_box|>""",
    "molmo": f"""{_CHATML} <im_start> <im_end> <im_patch> <im_col> <im_low> <low_res_im_start> <frame_start> <frame_end>
        <|image|> <|video|>""",
    "moondream": "<|endoftext|> <|md_reserved_{n}|>",
    "kimi": """[BOS] [EOS] [EOT] [UNK] [PAD] <|im_end|> <|im_user|> <|im_assistant|> <|im_system|> <|im_middle|>
        <|media_start|> <|media_begin|> <|media_content|> <|media_pad|> <|media_end|> [start_header_id] [end_header_id]
        ◁think▷ ◁/think▷""",
    "deepseek": """<｜begin▁of▁sentence｜> <｜end▁of▁sentence｜> <｜▁pad▁｜> <｜User｜> <｜Assistant｜> <|User|>
        <|Assistant|> <|ref|> <|/ref|> <|det|> <|/det|> <|grounding|> <image_placeholder>""",
    "phi": """<|endoftext|> <|system|> <|user|> <|assistant|> <|end|> <|image_{n}|> <|audio_{n}|> <|placeholder{n}|>
        <|im_sep|> <|endofprompt|>""",
    "minicpm": f"{_CHATML} {_GROUNDED} <image> </image> <image_id> </image_id> <slice> </slice> <unk>",
    "t5": "<extra_id_{n}>",
}
FAMILY_TOKENS: Mapping[str, tuple[str, ...]] = {family: tuple(tokens.split()) for family, tokens in _FAMILIES.items()}
"""The special tokens of each model family. The entry "loaders" holds the words such as ``<image>`` at which training
code splits a text to insert its media.

A number may have a blank before it (``<image 1>``).
"""
_ENDS = """<|im_end|> <|endoftext|> <|end_of_text|> <|eot_id|> <|eot|> <|end|> <|user|> <end_of_turn> <turn|> </s> <eos>
    [EOS] <｜end▁of▁sentence｜>"""
END_TOKENS = tuple(_ENDS.split())
"""The tokens that end a response."""


def _pattern(tokens: Iterable[str]) -> str:
    """Return the text of a regular expression that matches any one of the tokens, where ``{n}`` is a number.

    Longer tokens come first in the expression. So if one token is the beginning of another token, the longer one is
    matched.
    """
    ordered = sorted(set(tokens), key=lambda token: (-len(token), token))
    return "|".join(re.escape(token).replace(r"\{n\}", r"\s?\d{1,4}") for token in ordered)


_BARRED = r"[|｜]/?[A-Za-z_▁][\w▁/.:-]{1,63}[|｜][>＞]"
# Each alternative begins with a plain character, from which re knows where a match may begin: 50 times as fast as with
# a class in front of one of them.
_LISTED = _pattern(token for tokens in FAMILY_TOKENS.values() for token in tokens)
TOKEN = re.compile(rf"<{_BARRED}|＜{_BARRED}|{_LISTED}")
"""A pattern that matches a special token.

``<|x|>`` (a norm) and ``<|>`` (an operator) do not match; nor do ``<b>`` and other HTML, except the few elements that
are spelt like a token: ``<s>``, ``<img>``, ``<mask>``, ``<video>``, ``<audio>``, ``<image>``.
"""
DAMAGE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufff9-\ufffd\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff]")
"""A pattern that matches damaged text: a control character except tab and line end, a surrogate, a noncharacter, or
U+FFFD.
"""
_GARBLED = (
    r"(?<!\S)▁(?=[^\W\d_])|[ĠĊ]{2,}"  # blanks and line ends as SentencePiece and byte-level BPE write them
    "|[\u0300-\u036f]{3,}"  # a letter with so many marks that it is unreadable
)
_HIDDEN = (
    "[\u061c\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]"  # bidirectional marks, joiners, operators
    "|(?<![\u0e00-\u109f\u1780-\u17ff])\u200b"  # zero-width space, but in Thai, Lao, Burmese and Khmer
    "|(?<![\U0001f3f4\U000e0020-\U000e007f])[\U000e0000-\U000e007f]+"  # tag characters, except behind a flag
    "|(?<![\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[\U000e0100-\U000e01ef]+"  # variants, but of CJK
    "|(?<=[\ufe00-\ufe0f\U000e0100-\U000e01ef])[\ufe00-\ufe0f\U000e0100-\U000e01ef]+"  # or of a variant
)
HIDDEN = re.compile(_HIDDEN)
"""A pattern that matches an invisible character which changes how others are displayed or read. Joiners in words and
emoji do not match.
"""
_UNSEEN = re.compile(f"{_HIDDEN}|{_GARBLED}")  # matches characters beyond ASCII only


def find_control(text: str) -> str | None:
    """Return the first control text in ``text``. Control text is a special token of a model, or a character that
    changes how a text is displayed or read. Returns None if the text contains no control text.

    The result is the special token, or the code of the character, such as ``U+001B``.
    """
    kinds = (TOKEN, DAMAGE) if text.isascii() else (TOKEN, DAMAGE, _UNSEEN)
    matches = [match for kind in kinds if (match := kind.search(text))]
    if not matches:
        return None
    found = min(matches, key=re.Match[str].start)
    return found.group() if len(found.group()) > 1 and found.group()[0] in "<＜[◁" else f"U+{ord(found.group()[0]):04X}"


def without_hidden(text: str) -> str:
    """Return the text without invisible characters that change how other characters are displayed or read
    (:data:`HIDDEN`), e.g. a character that reverses the order of the text.
    """
    before = None
    while before != text:  # removing a character may make another one match
        before, text = text, HIDDEN.sub("", text)
    return text


def without_end(text: str) -> str:
    """Remove the end token (such as ``<|im_end|>``) that some servers leave at the end of a response. ``text`` is the
    response. Returns the response without the token and without the blanks before and after it. A response without
    an end token is returned unchanged.
    """
    bare = text.rstrip()
    return next((bare[: -len(token)].rstrip() for token in END_TOKENS if bare.endswith(token)), text)
