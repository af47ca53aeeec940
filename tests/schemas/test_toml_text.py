import time

import pytest

from groundtrace.schemas.toml_text import MAX_DEPTH, read_toml

PART = {"plain": "a", "in quotes": '"a.\\"b"', "in single quotes": "'a.b'", "with spaces": " a "}


@pytest.mark.parametrize("part", PART.values(), ids=PART)
def test_a_key_of_many_parts_is_refused_before_it_is_parsed(part: str) -> None:
    key = ".".join([part] * MAX_DEPTH)
    assert read_toml(f"{key} = 1")
    for text in (f"{key}.b = 1", f"x = {{ {key}.b = 1 }}", f"[{key}.b]", f'x = [ """\n\'""", {{ {key}.b = \'\' }} ]'):
        with pytest.raises(ValueError, match=r"^the key at line [123] has more than 20 parts$"):
            read_toml(f"k = 5\n{text}")


@pytest.mark.parametrize(
    "text",
    [
        f"x = [{', '.join(['0.25'] * 500)}]",
        f'x = """{"Look at it... " * 200}"""',
        f"x = '{'a, b; c. ' * 200}' # {'. ' * 200}",
        f"x = '{'https://a.b.c.d/e.f?g=h.i ' * 50}'",
    ],
)
def test_dots_of_values_are_not_counted(text: str) -> None:
    assert read_toml(text)["x"]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("a" + ".a" * 60_000 + "=1", "the key at line 1 has more than 20 parts"),
        ("\n".join(f"[a{'.a' * 2_000}.b{i}]" for i in range(100)), "the key at line 1 has more than 20 parts"),
        ("x=" + "[" * 15 + "{a.b.c.d.e.f=1}" + "]" * 15, "nested too deeply"),
        ("x=" + "[" * 60_000, "nested too deeply"),
        ("x=" + "9" * 5_000, "Exceeds the limit"),
        ("x=0x" + "f" * 5_000, "a whole number has more than 1024 bits"),
        ("x = ", "Invalid value"),
    ],
)
def test_a_hostile_text_is_refused_in_one_line(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=f"^{wrong}.*$") as raised:
        read_toml(text)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "unit",
    ["a", ".a", "'", '"', '\\"', '"x', "a.'", 'a."', " a . ", "[[],[]],", f"[{'.a' * 19}]\n"],
)
def test_the_time_grows_with_the_length_of_the_text(unit: str) -> None:
    begun = time.monotonic()
    with pytest.raises(ValueError):
        read_toml(unit * (2**20 // len(unit)))
    assert time.monotonic() - begun < 20
