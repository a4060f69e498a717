"""`serving:` the load an inference deployment must carry, and its latency objectives."""

from __future__ import annotations

from typing import Literal

from pydantic import StrictBool

from cann_plan.spec.base import Section, key, section
from cann_plan.spec.quantity import Fraction, Name, PerSecond, PositiveFraction, PositiveInt, Seconds

WeightType = Literal["bf16", "fp16", "fp8", "int8", "int4", "mxfp4", "nvfp4"]
CacheType = Literal["bf16", "fp16", "fp8", "int8"]
Batching = Literal["static", "dynamic", "continuous"]
WorkPlace = Literal["host", "device"]


class PostProcessing(Section):
    """Work after a forward pass (sampling, detokenising, parsing): where it runs and how long it takes."""

    place: WorkPlace | None = key("host: overlapped with the next forward pass; device: in line with it")
    time_per_request: Seconds | None = key("time for one request on one host core", unit="s")
    time_per_token: Seconds | None = key("time for one output token on one host core", unit="s")


class ServingSpec(Section):
    """An inference deployment."""

    engine: Name | None = key("profile of the serving engine (see presets list profiles)")
    input_tokens: PositiveInt | None = key("mean prompt length", unit="tokens")
    output_tokens: PositiveInt | None = key("mean answer length", unit="tokens")
    max_context: PositiveInt | None = key("longest prompt plus answer that must be possible", unit="tokens")
    request_rate: PerSecond | None = key("requests that arrive in a second", unit="1/s")
    concurrency: PositiveInt | None = key("requests in flight; an alternative to request_rate")
    batching: Batching | None = key("static, dynamic (size follows the request rate) or continuous")
    max_batch: PositiveInt | None = key("upper bound of sequences decoded together", unit="sequences")
    ttft_s: Seconds | None = key("objective: time to the first token", unit="s")
    tpot_s: Seconds | None = key("objective: time per output token after the first", unit="s")
    latency_s: Seconds | None = key("objective: time to the whole answer", unit="s")
    percentile: PositiveFraction | None = key("fraction of requests that must meet the objectives")
    weight_dtype: WeightType | None = key("number format of the weights")
    cache_dtype: CacheType | None = key("number format of keys and values")
    memory_fraction: PositiveFraction | None = key("fraction of device memory the engine may use")
    prefix_hit: Fraction | None = key("fraction of prompt tokens found in the prefix cache")
    chunked_prefill: PositiveInt | None = key(
        "prompt tokens of one prefill chunk; absent: whole prompts", unit="tokens"
    )
    disaggregated: StrictBool | None = key("prefill and decode on separate instances")
    post_processing: PostProcessing = section(PostProcessing, "work after a forward pass")
