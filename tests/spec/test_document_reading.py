"""Reading a document: plain values, places, and bounds that no file can break."""

import json
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cann_plan.spec import document
from cann_plan.spec.document import MAX_BYTES, MAX_DEPTH, MAX_NODES, parse_bytes, parse_text, read
from cann_plan.spec.errors import SpecError
from cann_plan.spec.node import Source, dotted, parse_path, place

SOURCE = Source("x.yaml")


def plain(text: str, *, is_json: bool = False) -> object:
    return parse_text(text, SOURCE, json=is_json).plain()


def problem(text: str | bytes, *, is_json: bool = False) -> tuple[int | None, int | None, str]:
    data = text.encode() if isinstance(text, str) else text
    with pytest.raises(SpecError) as caught:
        parse_bytes(data, SOURCE, json=is_json)
    (found,) = caught.value.problems
    return found.line, found.column, found.message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8), ("-3", -3), ("80e9", 80e9), ("1.5", 1.5), (".5", 0.5), ("~", None), ("null", None), ("", None),
        ("true", True), ("False", False),
        # what YAML 1.1 reads as something else stays text
        ("on", "on"), ("no", "no"), ("yes", "yes"), ("010", "010"), ("1:30", "1:30"), ("0x1f", "0x1f"),
        ("2024-01-01", "2024-01-01"), (".inf", ".inf"), ("1e999", "1e999"), ("'8'", "8"), ("=", "="),
    ],
)  # fmt: skip
def test_plain_scalars(text: str, value: object) -> None:
    result = plain(f"a: {text}\n")
    assert result == {"a": value}
    assert isinstance(result, dict)
    assert type(result["a"]) is type(value)


def test_norwegian_region_stays_a_name() -> None:
    assert plain("region: NO\n") == {"region": "NO"}


def test_places_of_keys_and_values() -> None:
    root = parse_text("model: llama\ntraining:\n  tokens: 80e9\n  list: [1, {x: 2}]\n", SOURCE)
    assert str(place(root, ("training", "tokens"))) == "x.yaml:3:11"
    assert str(place(root, ("training", "tokens"), of_key=True)) == "x.yaml:3:3"
    assert str(place(root, ("training", "list", 1, "x"))) == "x.yaml:4:17"
    assert str(place(root, ("training", "absent", "deeper"))) == "x.yaml:3:3"  # the nearest section around it


def test_columns_count_characters_not_bytes() -> None:
    assert problem("名称: {a: 1, a: 2}\n")[:2] == (1, 12)


def test_anchors_and_merge_keys() -> None:
    text = "base: &b {tensor: 8, pipeline: 4}\nother: {<<: *b, pipeline: 2}\nboth: {<<: [*b, {data: 3}]}\n"
    assert plain(text) == {
        "base": {"tensor": 8, "pipeline": 4},
        "other": {"tensor": 8, "pipeline": 2},
        "both": {"tensor": 8, "pipeline": 4, "data": 3},
    }


def test_billion_laughs_is_refused_at_once() -> None:
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    line, _, message = problem("\n".join(lines))
    assert message == f"more than {MAX_NODES} values once aliases are written out"
    assert line is not None


def test_billion_laughs_by_merge_keys_is_refused() -> None:
    lines = ["a0: &a0 {" + ", ".join(f"k{i}: 1" for i in range(100)) + "}"]
    lines += [f"a{i}: &a{i} {{x{i}: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 9)]
    assert "aliases" in problem("\n".join(lines))[2]


@pytest.mark.parametrize("is_json", [False, True])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_nesting_is_refused(opening: str, is_json: bool) -> None:
    message = problem(opening * 100_000, is_json=is_json)[2]
    assert message == f"nested deeper than {MAX_DEPTH} levels"


def test_deep_nesting_by_indentation_and_by_aliases_is_refused() -> None:
    deep = "".join(" " * i + "a:\n" for i in range(200))
    assert "nested deeper" in problem(deep)[2]
    chain = "a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 200))
    assert "nested deeper" in problem(chain)[2]


def test_the_deepest_allowed_nesting_is_read() -> None:
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert plain(text) == plain(text, is_json=True)


def test_large_files_are_refused_without_being_read(tmp_path: Path) -> None:
    file = tmp_path / "big.yaml"
    file.write_bytes(b"a: 1\n" * 1_000_000)  # 5 MB
    with pytest.raises(SpecError, match="larger than 1 MiB"):
        read(file)
    assert parse_bytes(b"a: 1\n#" + b"x" * (MAX_BYTES - 6), SOURCE).plain() == {"a": 1}


@pytest.mark.parametrize(
    ("data", "line", "column", "words"),
    [
        (b"a: 1\nb: \xff\n", 2, 4, "byte 0xff is not UTF-8"),
        ("a: é\n".encode("latin-1"), 1, 4, "byte 0xe9 is not UTF-8"),
        ("a: 1\n".encode("utf-16"), 1, 1, "UTF-16"),
        (b"\x80", 1, 1, "byte 0x80 is not UTF-8"),
    ],
)
def test_text_that_is_not_utf8(data: bytes, line: int, column: int, words: str) -> None:
    found = problem(data)
    assert found[:2] == (line, column)
    assert words in found[2]


def test_byte_order_mark_is_accepted() -> None:
    assert parse_bytes(b"\xef\xbb\xbfa: 1\n", SOURCE).plain() == {"a": 1}


@pytest.mark.parametrize("name", ["", "nowhere.yaml", "."])
def test_unreadable_paths(tmp_path: Path, name: str) -> None:
    with pytest.raises(SpecError):
        read(tmp_path / name)


def test_names_no_file_can_have() -> None:
    for name in ("a\0b", "x" * 5000):
        with pytest.raises(SpecError, match="cannot be read"):
            read(name)


def test_the_c_parser_is_used_where_there_is_one() -> None:
    assert (document.Loader is yaml.CSafeLoader) == yaml.__with_libyaml__


def test_without_the_c_parser_documents_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: [1, two, {x: 80e9}]\nb: &b\n  c: 'q'\n<<: *b\n"
    fast = parse_text(text, SOURCE)
    monkeypatch.setattr(document, "Loader", yaml.SafeLoader)
    assert parse_text(text, SOURCE) == fast
    assert problem("a: [1\n")[2].startswith("not valid YAML")


def test_no_yaml_tag_builds_an_object() -> None:
    for tag in ("!!python/name:os.system", "!!python/object/apply:os.system", "!!timestamp", "!local", "!!set"):
        assert "is not supported" in problem(f"a: {tag} x\n")[2]


JSON_ERRORS = [
    ("", 1, 1, "empty"),
    ('{"a": 1,\n "a": 2}', 2, 2, "given twice"),
    ('{"a":}', 1, 6, "unexpected"),
    ("[1,]", 1, 4, "unexpected"),
    ('{"a": 1} x', 1, 10, "after the document"),
    ('{"a": nan}', 1, 7, "unexpected 'nan'"),
    ('{"a" 1}', 1, 6, "expected ':'"),
    ("[1 2]", 1, 4, "expected ','"),
    ('{"a": 01}', 1, 7, "unexpected '0'"),
    ('{"a": "x\ny"}', 1, 7, "unexpected"),
    ("[1, 2", 1, 6, "end of the text"),
    ('{"a": 1e999}', 1, 7, "finite"),
    ('["\\ud83d"]', 1, 2, "surrogate"),
    ('["\\x"]', 1, 2, "bad string"),
    ("{1: 2}", 1, 2, "double quotes"),
    ("{'a': 1}", 1, 2, "unexpected"),
]


@pytest.mark.parametrize(("text", "line", "column", "words"), JSON_ERRORS)
def test_json_errors_are_located(text: str, line: int, column: int, words: str) -> None:
    found = problem(text, is_json=True)
    assert found[:2] == (line, column)
    assert words in found[2]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON_VALUES, st.sampled_from([None, 2]), st.booleans())
def test_json_reads_as_the_standard_library_reads_it(value: object, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert plain(text, is_json=True) == json.loads(text)


@given(st.text(alphabet=st.sampled_from("{}[],:\"\\ \n\t0123456789.eE+-truefalsn#&*!|>%@`'<?~é\ud800"), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for is_json in (False, True):
        try:
            result = parse_text(text, SOURCE, json=is_json).plain()
        except SpecError:
            continue
        assert json.dumps(result, ensure_ascii=False).encode()


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for is_json in (False, True):
        try:
            result = parse_bytes(data, SOURCE, json=is_json).plain()
        except SpecError:
            continue
        assert json.dumps(result, ensure_ascii=False).encode()


@given(st.lists(st.one_of(st.from_regex(r"[a-z_]{1,8}", fullmatch=True)), min_size=1, max_size=5), st.integers(0, 99))
def test_paths_read_back(names: list[str], index: int) -> None:
    path = (*names, index)
    assert parse_path(dotted(path)) == path


def test_standard_input_is_a_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_bytes(b"a: 1\n b: 2\n")
    with file.open("rb") as stream:
        monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": stream})())
        with pytest.raises(SpecError, match="<stdin>:2:3"):
            read("-")
