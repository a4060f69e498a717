"""Hugging Face `config.json` to a `ModelSpec`.

The language model alone is described: a vision or audio tower of a multimodal model is left out. An architecture
that is not known is refused by name, never guessed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from cann_plan.importers.hf_config import Fields, HfConfig, HfConfigError, UnsupportedModelError
from cann_plan.importers.hf_defaults import DEFAULTS
from cann_plan.importers.hf_families import DEFAULTS_OF, FAMILIES
from cann_plan.spec.model import ModelSpec

__all__ = ["HfConfigError", "UnsupportedModelError", "hf_fields", "import_hf", "is_hf_config", "supported_model_types"]

TEXT_SECTIONS: Final = ("text_config", "llm_config", "language_config")
"""Keys under which multimodal configurations keep their language model."""


def supported_model_types() -> tuple[str, ...]:
    """Model types the importer knows, sorted."""
    return tuple(sorted(FAMILIES))


def is_hf_config(data: object) -> bool:
    """Whether a document is a Hugging Face configuration rather than a model of ours."""
    return isinstance(data, Mapping) and (
        "model_type" in data or any(isinstance(data.get(key), Mapping) for key in TEXT_SECTIONS)
    )


def import_hf(source: str | Path | Mapping[str, Any]) -> ModelSpec:
    """The model that a config.json (its content, its path, or the path of its directory) describes.

    Raises:
        UnsupportedModelError: the architecture is not known.
        HfConfigError: a key is missing or has no meaning.
        OSError: the file cannot be read.
    """
    fields = hf_fields(source)
    try:
        return ModelSpec(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise HfConfigError(str(first["msg"]), ".".join(str(part) for part in first["loc"])) from None


def hf_fields(source: str | Path | Mapping[str, Any]) -> Fields:
    """The keys of the `ModelSpec` that `import_hf` builds; raises as it does."""
    if isinstance(source, Mapping):
        data, name = source, None
    else:
        path = Path(source)
        if path.is_dir():
            path = path / "config.json"
        data, name = _read(path), path.parent.name if path.name == "config.json" else path.stem
    config = _text_part(data)
    model_type = config.model_type
    reader = FAMILIES.get(model_type)
    if reader is None:
        raise UnsupportedModelError(f"unsupported: model_type {model_type}")
    try:
        fields = reader(config)
    except HfConfigError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        raise HfConfigError(f"cannot be read as model_type {model_type}: {error!r}") from error
    title = data.get("_name_or_path") or config.data.get("_name_or_path")
    title = name or (Path(title).name if isinstance(title, str) else None) or model_type
    origin = f"config.json, model_type {model_type}"
    return {"name": title, **fields, "source": origin}


def _read(path: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HfConfigError(f"{path.name} is not JSON: {error}") from None
    if not isinstance(data, Mapping):
        raise HfConfigError(f"{path.name} does not hold a mapping")
    return data


def _text_part(data: Mapping[str, Any]) -> HfConfig:
    """The configuration of the language model: the document, or the section that multimodal ones keep it in."""
    outer = data.get("model_type")
    section = next((data[key] for key in TEXT_SECTIONS if isinstance(data.get(key), Mapping)), None)
    inner: Mapping[str, Any] = data if section is None else section
    model_type = inner.get("model_type", outer)
    if not isinstance(model_type, str) or not model_type:
        model_type = _from_architecture(data)
    if section is not None and "tie_word_embeddings" not in section and "tie_word_embeddings" in data:
        inner = {**section, "tie_word_embeddings": data["tie_word_embeddings"]}
    return HfConfig(inner, DEFAULTS.get(DEFAULTS_OF.get(model_type, model_type), {}), model_type)


def _from_architecture(data: Mapping[str, Any]) -> str:
    """The model type of a document that states only `architectures` (LlamaForCausalLM)."""
    names = data.get("architectures")
    name = names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None
    if name is None:
        raise HfConfigError("missing: this is not a Hugging Face configuration", "model_type")
    stem = name.split("For")[0].removesuffix("Model").lower()
    for model_type in FAMILIES:
        if model_type.replace("_", "").replace("-", "").lower() == stem:
            return model_type
    raise UnsupportedModelError(f"unsupported: architecture {name}")
