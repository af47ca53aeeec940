"""Configs: what a file and ``--set`` give, and what is said of a mistake."""

import pickle
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
from apache_beam.internal import cloudpickle_pickler
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pydantic import AfterValidator, Field, PositiveInt

from groundtrace.config.errors import ConfigError
from groundtrace.config.settings import build, given_values, load_config, settings, to_toml
from groundtrace.embedded.roles import embedded_endpoints
from groundtrace.inference.settings import EndpointSettings
from groundtrace.pipelines.grounded_cot import Settings
from groundtrace.stages.attempt_questions import AttemptSettings
from groundtrace.stages.filter_by_difficulty import DifficultySettings
from groundtrace.stages.generate_traces import TraceSettings
from groundtrace.stages.split_by_media_group import SplitSettings
from groundtrace.stages.verify_traces import VerifySettings


def load(*overrides: str) -> Settings:
    return load_config(Settings, None, overrides)


def test_without_a_file_the_defaults_hold() -> None:
    assert load() == Settings()


OVERRIDES = [
    (["attempt.k=8"], replace(Settings(), attempt=AttemptSettings(k=8))),
    (["attempt.k = 8", "attempt.k_min=2"], replace(Settings(), attempt=AttemptSettings(8, 2))),
    (["attempt.k=8", "attempt.k=5"], replace(Settings(), attempt=AttemptSettings(k=5))),
    (["attempt.temperature=1"], Settings()),
    (["open_choices=false"], replace(Settings(), open_choices=False)),
    (["difficulty.high=0.8"], replace(Settings(), difficulty=DifficultySettings(high=0.8))),
    (['difficulty.route=["too_easy"]'], replace(Settings(), difficulty=DifficultySettings(route=("too_easy",)))),
    (["verify.gate.tau=0.5"], replace(Settings(), verify=VerifySettings(gate=replace(VerifySettings().gate, tau=0.5)))),
    (["roles.judge="], replace(Settings(), roles=Settings().roles | {"judge": ""})),
    (["roles.teacher=coarse"], replace(Settings(), roles=Settings().roles | {"teacher": "coarse"})),
    (["roles.teacher='coarse'"], replace(Settings(), roles=Settings().roles | {"teacher": "coarse"})),
    (
        ["endpoints.coarse.strength=0"],
        replace(Settings(), endpoints=embedded_endpoints() | {"coarse": EndpointSettings("classical", "colour")}),
    ),
    (
        ["endpoints.own.kind=openai", "endpoints.own.model=m", "endpoints.own.base_url=http://h:1/v1"],
        replace(
            Settings(),
            endpoints=embedded_endpoints() | {"own": EndpointSettings("openai", "m", base_url="http://h:1/v1")},
        ),
    ),
]


@pytest.mark.parametrize(("overrides", "expected"), OVERRIDES)
def test_overrides(overrides: list[str], expected: Settings) -> None:
    assert load(*overrides) == expected


WRONG = [
    ("dificulty.high=0.8", "unknown key dificulty; did you mean difficulty?"),
    ("difficulty.hihg=0.8", "unknown key difficulty.hihg; did you mean difficulty.high?"),
    ("zzz=1", "unknown key zzz; known here: allow_embedded, allow_self_judging, attempt"),
    ("endpoints.coarse.modle=x", "unknown key endpoints.coarse.modle; did you mean endpoints.coarse.model?"),
    ("attempt.k", "--set 'attempt.k' must have the form key=value, such as --set difficulty.high=0.8"),
    ("=3", "--set '=3' must have the form key=value"),
    ("attempt.k=four", "attempt.k must be an integer, got 'four'"),
    ("attempt.k=4.0", "attempt.k must be an integer, got 4.0"),
    ("attempt.k=true", "attempt.k must be an integer, got True"),
    ("attempt.temperature=true", "attempt.temperature must be a number, got True"),
    ("attempt.temperature=warm", "attempt.temperature must be a number, got 'warm'"),
    ("open_choices=1", "open_choices must be true or false, got 1"),
    ("open_choices=yes", "open_choices must be true or false, got 'yes'"),
    ("difficulty.route=too_easy", 'difficulty.route must be a list such as ["a", "b"], got \'too_easy\''),
    ("difficulty.route=[1]", r"difficulty.route[0] must be 'too_easy' or 'too_hard', got 1"),
    ("attempt=3", "attempt must be a section, got 3"),
    ("roles=teacher", "roles must be a section, got 'teacher'"),
    ("attempt.k.x=3", "attempt.k must be an integer, got {'x': 3}"),
    ("endpoints.own.kind=openai", "endpoints.own.model is not set"),
    ("attempt.k_min=9", "attempt.k_min must be at most k = 4, got 9"),
    ("difficulty.high=nan", "difficulty.high must be a finite number, got nan"),
    ("difficulty.high=inf", "difficulty.high must be a finite number, got inf"),
    ("trace.n=0", "trace.n must be greater than 0, got 0"),
    ("trace.temperature=-1", "trace.temperature must be at least 0, got -1"),
    ("trace.temperature=nan", "trace.temperature must be a finite number, got nan"),
    ("trace.max_tokens=0", "trace.max_tokens must be greater than 0, got 0"),
    ("attempt.temperature=3", "attempt.temperature must be at most 2, got 3"),
    ("attempt.max_tokens=-5", "attempt.max_tokens must be greater than 0, got -5"),
    ("propose.max_tokens=0", "propose.max_tokens must be greater than 0, got 0"),
    ("verify.gate.tau=0", "verify.gate.tau must be greater than 0, got 0"),
    ("endpoints.coarse.frame=percent", "endpoints.coarse.frame must be 'molmo100', 'molmo1000', "),
    ("roles.chef=colour", "roles.chef must be one of policy, teacher, "),
    ("roles.judge=clour", "roles.judge must be one of coarse, colour, edges, got 'clour'"),
    ("allow_self_judging=false", "roles.judge names the same endpoint as roles.teacher"),
]


@pytest.mark.parametrize(("override", "said"), WRONG)
def test_a_mistake_is_named(override: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(override)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_a_part_of_a_key_may_be_in_quotes() -> None:
    found = load(
        'endpoints."qwen2.5".kind=openai',
        "endpoints.'qwen2.5'.model = a b",
        "endpoints.a b.kind=classical",
        "endpoints.a b.model=colour",
    )
    assert (found.endpoints["qwen2.5"].model, found.endpoints["a b"].model) == ("a b", "colour")


@pytest.mark.parametrize("override", ["attempt.k=3\n[trace]\nn = 4", "attempt.k\nworkers=3", 'attempt."k=3'])
def test_one_override_has_one_key(override: str) -> None:
    with pytest.raises(ConfigError, match=r"^(attempt\.k must be an integer, got '3\\n|unknown key attempt\.)"):
        load(override)


def test_a_key_below_a_value() -> None:
    with pytest.raises(ConfigError, match="k is a key with a value, not a section"):
        load("attempt.k=3", "attempt.k.x=1")


def test_a_file_with_overrides_on_top(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("[attempt]\nk = 6\nk_min = 2\n[split]\nsft_ratio = 0.5\n", "utf-8")
    found = load_config(Settings, str(path), ["attempt.k=7"])
    assert found == replace(Settings(), attempt=AttemptSettings(7, 2), split=SplitSettings(0.5))


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("[attempt]\nk = 6\n", "utf-8-sig")
    assert load_config(Settings, str(path)) == replace(Settings(), attempt=AttemptSettings(6))


def test_a_home_folder_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.toml").write_text("[attempt]\nk = 6\n", "utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_config(Settings, "~/c.toml").attempt.k == 6


def test_a_mapping_has_no_dotted_keys() -> None:
    with pytest.raises(
        ConfigError, match=r"one of its keys is 'a\.b': write \{'a': \{'b': …\}\}, or pass .* overrides"
    ):
        given_values({"a.b": 1})
    assert given_values({"endpoints": {"qwen2.5": {"k": 1}}}) == {"endpoints": {"qwen2.5": {"k": 1}}}


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_is_not_the_defaults(name: str) -> None:
    with pytest.raises(ConfigError, match="name of the config is empty: name a TOML file, or leave --config out"):
        load_config(Settings, name)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot read the config"),
        (b"[attempt\nk = 6", "is not TOML"),
        (b"\xff\xfe", "is not TOML"),
        (b"a" + b".a" * 60_000 + b" = 1", "is not TOML: the key at line 1 has more than 20 parts"),
        (b"x = " + b"[" * 9_000, "is not TOML: nested too deeply"),
        (b"x = " + b"9" * 5_000, "is not TOML: "),
        (b"[attempt]\nkk = 6", "unknown key attempt.kk; did you mean attempt.k"),
    ],
)
def test_files_that_cannot_be_used(content: bytes | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        load_config(Settings, str(path))


@examples(max_examples=40)
@given(
    attempt=st.builds(AttemptSettings, k=st.integers(4, 99), k_min=st.integers(1, 4), temperature=st.floats(0, 2)),
    trace=st.builds(TraceSettings, n=st.integers(1, 99), temperature=st.floats(0, 2)),
    difficulty=st.builds(DifficultySettings, low=st.floats(0, 0.5), high=st.floats(0.5, 1), include_low=st.booleans()),
    own=st.builds(EndpointSettings, kind=st.just("openai"), model=st.text(min_size=1), revision=st.text()),
)
def test_a_resolved_config_reads_back(
    attempt: AttemptSettings,
    trace: TraceSettings,
    difficulty: DifficultySettings,
    own: EndpointSettings,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    given = replace(
        Settings(), attempt=attempt, trace=trace, difficulty=difficulty, endpoints=embedded_endpoints() | {"own": own}
    )
    path = tmp_path_factory.mktemp("config") / "c.toml"
    path.write_text(to_toml(given), "utf-8")
    assert load_config(Settings, str(path)) == given


def not_rude(word: str) -> str:
    """A validator of a field."""
    if word == "rude":
        raise ValueError(f"must be polite, got {word!r}")
    return word


@settings
class Part:
    """A section within a section."""

    weight: float = 1.0
    tags: tuple[str, ...] = ()


@settings
class Section:
    """A section of a test."""

    RENAMED: ClassVar[Mapping[str, str]] = {"floor": "floors.spatial", "part.heft": "part.weight"}

    low: Annotated[int, Field(ge=0), "the lower end"] = 0
    high: int = 9
    word: Annotated[str, AfterValidator(not_rude)] = "please"
    kind: Literal["plain", "fancy"] = "plain"
    part: Part = field(default_factory=Part)

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"low must be at most high = {self.high}, got {self.low}")
        if self.high == 13:
            raise ValueError("thirteen is unlucky")


@settings
class Base:
    """What two configs share."""

    RENAMED: ClassVar[Mapping[str, str]] = {"old_section": "section"}

    section: Section = field(default_factory=Section)


@settings
class Whole(Base):
    """A config of a test."""

    RENAMED: ClassVar[Mapping[str, str]] = {"section.gone": "named.X.low"}

    named: Mapping[str, Section] = field(default_factory=lambda: {"a": Section(low=1)})
    parts: tuple[Part, ...] = ()
    limit: PositiveInt | None = None


SECTION = [
    ({"low": -1}, "section.low must be at least 0, got -1"),
    ({"low": 10}, "section.low must be at most high = 9, got 10"),
    ({"high": 13}, "section: thirteen is unlucky"),
    ({"word": "rude"}, "section.word must be polite, got 'rude'"),
    ({"kind": "odd"}, "section.kind must be 'plain' or 'fancy', got 'odd'"),
    ({"part": {"weight": "much"}}, "section.part.weight must be a number, got 'much'"),
    ({"part": {"wieght": 1}}, "unknown key section.part.wieght; did you mean section.part.weight?"),
    ({"part": {"heft": 1}}, "section.part.heft is now section.part.weight"),
    ({"floor": 1}, "section.floor is now section.floors.spatial"),
    ({"low": {"x": [1] * 200}}, "section.low must be an integer, got {'x': [1, 1, 1"),
]


@pytest.mark.parametrize(("section", "said"), SECTION)
def test_the_key_of_an_error_is_whole_wherever_the_section_stands(section: dict[str, Any], said: str) -> None:
    for values, key in [({"section": section}, "section"), ({"named": {"b": section}}, "named.b")]:
        with pytest.raises(ConfigError) as caught:
            build(Whole, values)
        assert str(caught.value).startswith(said.replace("section", key))
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"old_section": {"low": 1}}, "old_section is now section: rename the key"),
        ({"section": {"gone": 1}}, "section.gone is now named.X.low: rename the key"),
        ({"parts": [{"weight": 1}, {"weihgt": 1}]}, "unknown key parts[1].weihgt; did you mean parts[1].weight?"),
        ({"high": 1}, "unknown key high; did you mean section.high?"),
        ({"weight": 1}, "unknown key weight; did you mean section.part.weight?"),
        (
            {"limt": 1, "weight": 1},
            "unknown keys: limt (did you mean limit?), weight (did you mean section.part.weight?)",
        ),
        ({"parts": [{"weight": "x"}]}, "parts[0].weight must be a number, got 'x'"),
        ({"parts": [1]}, "parts[0] must be a section, got 1"),
        ({"named": {"b": 1}}, "named.b must be a section, got 1"),
        ({"limit": 0}, "limit must be greater than 0, got 0"),
    ],
)
def test_errors_outside_of_the_section(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(Whole, values)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"zzzzz": 1, "limt": 1}, "limt (did you mean limit?), zzzzz (known here: limit, named, parts, section)"),
        (
            {"section": {"hihg": 1, "aaaaa": 1, "bbbbb": 1, "part": {"wieght": 1}}},
            "section.aaaaa and section.bbbbb (known here: high, kind, low, part, word), "
            "section.hihg (did you mean section.high?), section.part.wieght (did you mean section.part.weight?)",
        ),
        (
            {"named": {"b": {"floor": 1, "lwo": 1}}, "section": {"part": {"heft": 1}}, "old_section": {}},
            "named.b.floor (now named.b.floors.spatial), named.b.lwo (did you mean named.b.low?), "
            "old_section (now section), section.part.heft (now section.part.weight)",
        ),
        (
            {"limit": 0, "parts": [{"weihgt": 1}, {"tgas": 1}]},
            "parts[0].weihgt (did you mean parts[0].weight?), parts[1].tgas (did you mean parts[1].tags?)",
        ),
    ],
)
def test_all_unknown_keys_are_named_at_once(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(Whole, values)
    assert str(caught.value) == f"unknown keys: {said}"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value), "a worker reports it"


INNER = [
    ({"low": -1}, "outer.inner.low must be at least 0, got -1"),
    ({"low": 10}, "outer.inner.low must be at most high = 9, got 10"),
    ({"high": 13}, "outer.inner: thirteen is unlucky"),
    ({"part": {"wieght": 1}}, "unknown key outer.inner.part.wieght; did you mean outer.inner.part.weight?"),
    ({"zzzzz": 1}, "unknown key outer.inner.zzzzz; known here: high, kind, low, part, word"),
    ({"floor": 1}, "outer.inner.floor is now outer.inner.floors.spatial: rename the key"),
    (
        {"hihg": 1, "floor": 1},
        "unknown keys: outer.inner.floor (now outer.inner.floors.spatial), "
        "outer.inner.hihg (did you mean outer.inner.high?)",
    ),
]


@settings
class Outer:
    """Holds what is settings of a class that only another key tells."""

    inner: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        build(Section, self.inner, "outer.inner")


@settings
class Top:
    """A config."""

    outer: Outer = field(default_factory=Outer)


@pytest.mark.parametrize(("values", "said"), INNER)
def test_a_section_that_is_built_by_the_check_of_another(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(Top, {"outer": {"inner": values}})
    assert str(caught.value) == said


def test_unknown_keys_of_a_section_that_is_built_by_the_check_of_another() -> None:
    with pytest.raises(ConfigError) as caught:
        build(Top, {"outer": {"inner": {"hihg": 1}}, "outr": 1})
    assert str(caught.value) == (
        "unknown keys: outer.inner.hihg (did you mean outer.inner.high?), outr (did you mean outer?)"
    )


@settings
class Band:
    """Two ends, and what they are called."""

    low: float = 0.0
    high: float = 1.0
    names: Mapping[str, float] = field(default_factory=lambda: {"own": 1.0}, hash=False)


@settings
class Nested:
    """A band in a section."""

    band: Band = field(default_factory=lambda: Band(low=0.1, names={"theirs": 2.0}))


@settings
class Recipe:
    """Sections whose defaults are not those of their classes."""

    band: Band = field(default_factory=lambda: Band(low=0.2, high=0.4))
    nested: Nested = field(default_factory=lambda: Nested(band=Band(high=0.9)))
    plain: Nested = field(default_factory=Nested)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], Recipe()),
        (["band.high=0.5"], Recipe(band=Band(low=0.2, high=0.5))),
        (["band.low=0.0"], Recipe(band=Band(low=0.0, high=0.4))),
        (["band.names.own=3.0"], Recipe(band=Band(low=0.2, high=0.4, names={"own": 3.0}))),
        (["nested.band.low=0.3"], Recipe(nested=Nested(Band(low=0.3, high=0.9)))),
        (["plain.band.high=0.8"], Recipe(plain=Nested(Band(low=0.1, high=0.8, names={"theirs": 2.0})))),
        (["plain.band.names.own=3.0"], Recipe(plain=Nested(Band(low=0.1, names={"theirs": 2.0, "own": 3.0})))),
    ],
)
def test_what_a_recipe_sets_otherwise_stays_beside_a_key_that_is_given(overrides: list[str], expected: Recipe) -> None:
    assert load_config(Recipe, None, overrides) == expected


def test_a_named_entry_is_changed_key_by_key() -> None:
    found = build(Whole, {"named": {"a": {"high": 5}, "b": {"low": 2}}, "parts": [{"tags": ["x"]}], "limit": 3})
    assert found.named == {"a": Section(1, 5), "b": Section(2)}
    assert (found.parts, found.limit) == ((Part(tags=("x",)),), 3)


def test_a_date_is_not_text() -> None:
    with pytest.raises(ConfigError, match="2024-01-01 in the config or in --set is a date or a time, which no setting"):
        load_config(Whole, None, ["section.word=2024-01-01"])


@pytest.mark.parametrize(
    ("arguments", "named", "said"),
    [
        ((-1,), {}, "low must be at least 0, got -1"),
        ((), {"low": True}, "low must be an integer, got True"),
        ((5,), {"high": 4}, "low must be at most high = 4, got 5"),
        ((), {"hihg": 4}, "unknown key hihg; did you mean high?"),
        ((), {"part": {"weight": 1}}, "part must be an instance of Part, got {'weight': 1}"),
    ],
)
def test_settings_made_directly_are_checked(arguments: tuple[Any, ...], named: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        Section(*arguments, **named)


def test_an_int_stands_for_a_float_and_nothing_changes_afterwards() -> None:
    assert repr(Part(weight=2).weight) == "2.0"
    with pytest.raises(FrozenInstanceError):
        Part().weight = 3.0  # type: ignore[misc]


def test_a_config_needs_the_decorator() -> None:
    class Plain(Base):
        """Not decorated, though its base is."""

    with pytest.raises(ConfigError, match="the class Plain must be decorated with @settings"):
        load_config(Plain, None)


SENT = """
import pickle
from apache_beam.internal import cloudpickle_pickler
cls, made = cloudpickle_pickler.loads({sent!r})
assert made == cls(low=3) and hash(made) == hash(cls(low=3))
try:
    cls(low=-1)
except ValueError as error:
    print(error)
"""


@pytest.mark.slow
def test_settings_cross_to_a_worker_with_their_class() -> None:
    """A class of a user's own script travels by value: the worker can't import it."""

    @settings
    class Own:
        """As a script's settings are."""

        low: Annotated[int, Field(ge=0)] = 0
        part: Part = field(default_factory=Part)

    Part.__module__, module = "__main__", Part.__module__
    try:
        sent = cloudpickle_pickler.dumps((Own, Own(low=3)))
    finally:
        Part.__module__ = module
    done = subprocess.run([sys.executable, "-c", SENT.format(sent=sent)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("low must be at least 0, got -1\n", 0), done.stderr
    assert pickle.loads(pickle.dumps(AttemptSettings(8))) == AttemptSettings(8)
