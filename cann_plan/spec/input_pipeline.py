"""`input_pipeline:` loading, decoding and augmentation on the host, and their share on the device."""

from __future__ import annotations

from typing import Literal

from pydantic import StrictBool

from cann_plan.spec.base import Section, key
from cann_plan.spec.quantity import Bytes, BytesPerSecond, Fraction, NonNegativeInt, PositiveInt, Seconds

InputKind = Literal["tokens", "images"]
WorkPlace = Literal["host", "device", "auto"]


class InputPipelineSpec(Section):
    """Reading and preprocessing of training data, beside the training step."""

    kind: InputKind | None = key("tokens (already tokenised) or images (decoded and augmented)")
    sample_bytes: Bytes | None = key("stored size of one sample", unit="B")
    host_time_per_sample: Seconds | None = key("time one CPU core needs for one sample, all stages", unit="s")
    decode_time_per_sample: Seconds | None = key("part of host_time_per_sample that decodes", unit="s")
    decode: WorkPlace | None = key("where samples are decoded; auto: shared so that neither side waits")
    host_share: Fraction | None = key("fraction of samples the host decodes when both sides do")
    workers_per_device: PositiveInt | None = key("CPU cores that prepare the data of one device")
    prefetch: NonNegativeInt | None = key("batches prepared ahead", unit="batches")
    overlap: StrictBool | None = key("whether loading runs beside the training step")
    storage_bandwidth: BytesPerSecond | None = key("reading rate of one node", unit="B/s")
