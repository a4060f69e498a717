"""Finding shipped documents by name, alias and near miss."""

import pytest

from cann_plan.spec import presets
from cann_plan.spec.errors import SpecError


@pytest.mark.parametrize("kind", presets.KINDS)
def test_every_preset_is_a_document_with_a_description(kind: str) -> None:
    for preset in presets.all_presets([kind]):
        assert preset.node().mapping, preset.path
        assert "\n" not in preset.description()
        assert preset.description(), preset.path


@pytest.mark.parametrize("kind", ["devices", "clusters", "servers"])
def test_every_alias_finds_its_preset(kind: str) -> None:
    for preset in presets.all_presets([kind]):
        listed = preset.node().get("aliases")
        for alias in listed.plain() if listed else ():
            found = presets.find(kind, str(alias))
            assert found is not None, alias


def test_spelling_does_not_matter() -> None:
    for name in ("llama-2-70b", "LLaMA-2-70B", "llama_2_70b", " llama-2-70b "):
        found = presets.find("models", name)
        assert found is not None
        assert found.name == "llama-2-70b"
    found = presets.find("devices", "ATLAS_800_A2_313T_64G")
    assert found is not None
    assert found.name == "ascend-910b3-64g"


@pytest.mark.parametrize("name", ["", "..", "../models/llama-2-7b", "llama-2-7b.yaml", "x" * 10_000, "\0"])
def test_what_is_no_preset(name: str) -> None:
    assert presets.find("models", name) is None


def test_an_unknown_name_is_told_the_nearest_one() -> None:
    with pytest.raises(SpecError) as caught:
        presets.load("models", "llama-2-70")
    assert caught.value.problems[0].suggestion in ("llama-2-70b", "llama-2-7b")


def test_an_unknown_kind_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(KeyError):
        presets.names("planets")


def test_descriptions_come_from_the_first_comment() -> None:
    for preset in presets.all_presets():
        first = preset.text().split("\n", 1)[0]
        if first.startswith("# "):
            assert preset.description() == first.strip("# ")
