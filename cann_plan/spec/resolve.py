"""Loading a plan: from a file, preset, standard input or mapping to a validated `LoadedPlan`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NoReturn

from cann_plan.spec import presets
from cann_plan.spec.cluster import Cluster, ClusterError, ClusterSpec
from cann_plan.spec.cluster import resolve as resolve_cluster
from cann_plan.spec.consistency import contradictions
from cann_plan.spec.device import DeviceSpec
from cann_plan.spec.document import STDIN, parse_text, read
from cann_plan.spec.errors import Problem, SpecError, closest, problem_at
from cann_plan.spec.model import ModelSpec
from cann_plan.spec.node import Mark, Node, PathKey, Source, dotted, from_plain, parse_path, place, states
from cann_plan.spec.plan import PlanSpec
from cann_plan.spec.references import ModelReader, Resolver, is_hugging_face, is_path
from cann_plan.spec.server import ServerSpec
from cann_plan.spec.shorthand import put, written_out
from cann_plan.spec.unsupported import UNSUPPORTED, Unsupported, refuses
from cann_plan.spec.validation import keys_of, shown, validate

DEFAULT_CLUSTER: Final = "atlas-900-a2"
_MODEL_KEYS: Final = frozenset({"hidden_size", "layers", "vocabulary_size"})
_LABELS: Final = frozenset({"schema", "name", "description"})


@dataclass(frozen=True)
class LoadedPlan:
    """A valid plan with the places of everything it states.

    `is_model_only`: the document holds a model and nothing else. `cluster_assumed`: it names no cluster, so
    `DEFAULT_CLUSTER` was taken.
    """

    spec: PlanSpec
    root: Node  # everything resolved
    written: Node  # before names and `extends` of model and cluster are followed
    is_model_only: bool
    cluster_assumed: bool
    model_readers: Sequence[ModelReader] = ()
    unsupported: Sequence[Unsupported] = UNSUPPORTED

    @property
    def model(self) -> ModelSpec:
        """The model."""
        assert self.spec.model is not None  # load_plan refuses a plan without
        return self.spec.model

    @property
    def cluster(self) -> ClusterSpec:
        """The cluster as described; `hardware` is the resolved one."""
        assert self.spec.cluster is not None
        return self.spec.cluster

    @cached_property
    def hardware(self) -> Cluster:
        """The cluster with server, device, counts and link levels resolved. Raises SpecError."""
        server, device = self.cluster.server, self.cluster.device
        if not isinstance(server, ServerSpec) or not isinstance(device, DeviceSpec):
            self.fail("cluster", "has no server or no device")
        try:
            return resolve_cluster(self.cluster, server, device)
        except ClusterError as error:
            self.fail(f"cluster.{error.path}", error.message, error.allowed)

    def states(self, path: str | PathKey) -> bool:
        """Whether the document (with its presets and overrides) states a value at `path`."""
        return states(self.root, _steps(path))

    def where(self, path: str | PathKey) -> Mark:
        """Place of the value at `path`, or of the nearest section around it."""
        return place(self.root, _steps(path))

    def problem(
        self, path: str | PathKey, message: str, allowed: str | None = None, suggestion: str | None = None
    ) -> Problem:
        """A problem with the value at `path`, located in the file that states it."""
        steps = _steps(path)
        return problem_at(place(self.root, steps), dotted(steps), message, allowed, suggestion)

    def fail(
        self, path: str | PathKey, message: str, allowed: str | None = None, suggestion: str | None = None
    ) -> NoReturn:
        """Raise the problem as SpecError."""
        raise SpecError([self.problem(path, message, allowed, suggestion)])

    def override(self, changes: Mapping[str, Any]) -> LoadedPlan:
        """The plan with the values at dotted paths replaced by plain data. Raises SpecError."""
        root = self.written
        for path, value in changes.items():
            mark = Mark(Source(f"{path}={value}"[:200], Path.cwd()))
            root = put(root, _path_of(path, mark), from_plain(value, mark))
        assumed = self.cluster_assumed and "cluster" not in changes
        return _finish(root, self.is_model_only, assumed, Resolver(self.model_readers), self.unsupported)


def load_plan(
    source: str | Path | Mapping[str, Any] | Node,
    cluster: str | None = None,
    devices: int | None = None,
    overrides: Sequence[str] = (),
    model_readers: Sequence[ModelReader] = (),
    unsupported: Sequence[Unsupported] = UNSUPPORTED,
) -> LoadedPlan:
    """The plan in a file, "-" (standard input), preset (plan or model name), mapping or document already read.

    `overrides` are texts `path=value` (values as YAML), `cluster` and `devices` replace what the document says.
    `model_readers` read foreign model descriptions (Hugging Face config.json); keys in `unsupported` are refused.
    Raises SpecError with every problem found, located.
    """
    resolver = Resolver(model_readers)
    root = _read(source)
    if isinstance(root.value, str) or _is_model(root):
        root = Node({"model": root}, root.mark, {"model": root.mark})
    if root.mapping is None:
        raise SpecError([problem_at(root.mark, None, f"expected a plan, found {shown(root.plain())}", "a mapping")])
    resolved = resolver.resolve("plans", root, ())
    if resolved is None:
        raise SpecError(resolver.problems)
    root = resolved
    model_only = set(root.mapping or ()) - _LABELS == {"model"}
    root, assumed = _with_cluster(root)
    assumed = assumed and cluster is None
    root = _with_options(root, cluster, devices)
    for text in overrides:
        try:
            root = _with_override(root, text)
        except SpecError as error:
            resolver.problems.extend(error.problems)
    assumed = assumed and not any(text.strip().startswith("cluster=") for text in overrides)
    return _finish(root, model_only, assumed, resolver, unsupported)


def _finish(
    root: Node, model_only: bool, assumed: bool, resolver: Resolver, unsupported: Sequence[Unsupported]
) -> LoadedPlan:
    """Resolve model and cluster, validate, and refuse what no model answers yet."""
    root, missing = _with_cluster(root)
    assumed = assumed or missing
    written = checked = root
    for name, follow in (("model", resolver.model), ("cluster", resolver.cluster)):
        node = root.get(name)
        if node is None or node.value is None:
            if name == "model":
                resolver.problems.append(problem_at(root.mark, name, "is missing", "a preset, a path, or a mapping"))
            continue
        resolved = follow(node)
        root = root.replaced(name, resolved) if resolved is not None else root
        checked = checked.replaced(name, resolved) if resolved is not None else checked.without(name)
    spec, problems = validate(PlanSpec, checked)
    problems = [*resolver.problems, *problems, *_refused(root, unsupported)]
    if spec is not None:
        problems += [
            problem_at(place(root, found.path.split(".")), found.path, found.message, found.allowed)
            for found in contradictions(spec)
        ]
    if problems or spec is None:
        raise SpecError(problems)
    plan = LoadedPlan(spec, root, written, model_only, assumed, resolver.model_readers, unsupported)
    _ = plan.hardware  # counts and levels must fit each other
    return plan


def _refused(root: Node, unsupported: Sequence[Unsupported]) -> Iterator[Problem]:
    for row in unsupported:
        node: Node | None = root
        path: PathKey = ()
        for step in row.path.split("."):
            node = written_out(node, path).get(step) if node is not None else None
            path = (*path, step)
        if node is not None and refuses(row, written_out(node, path).plain()):
            yield problem_at(place(root, path), row.path, f"not supported yet: {row.what}")


def _read(source: str | Path | Mapping[str, Any] | Node) -> Node:
    if isinstance(source, Node):
        return source
    if isinstance(source, Mapping):
        return from_plain(source, Mark(Source("<mapping>", Path.cwd())))
    text = str(source)
    if text == STDIN or isinstance(source, Path) or is_path(text) or _exists(text):
        return read(text)
    for kind in ("plans", "models"):
        preset = presets.find(kind, text)
        if preset is not None:
            return preset.node()
    candidates = [*presets.names("plans"), *presets.names("models")]
    mark = Mark(Source(text[:200]))
    allowed = "a file, a plan or model preset, or - for standard input"
    raise SpecError([problem_at(mark, None, "no such file or preset", allowed, closest(text, candidates))])


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        return False


def _is_model(root: Node) -> bool:
    """Whether a document describes a model rather than a plan."""
    entries = root.mapping or {}
    if "model" in entries:
        return False
    plan_keys = set(keys_of(PlanSpec)) - _LABELS
    return is_hugging_face(root) or (not plan_keys & set(entries) and bool(_MODEL_KEYS & set(entries)))


def _with_cluster(root: Node) -> tuple[Node, bool]:
    """`root` with the default cluster where it states none, and whether it was added."""
    if states(root, ("cluster",)):
        return root, False
    return root.replaced("cluster", Node(DEFAULT_CLUSTER, root.mark)), True


def _with_options(root: Node, cluster: str | None, devices: int | None) -> Node:
    if cluster is not None:
        mark = Mark(Source(f"--cluster {cluster}"[:200], Path.cwd()))
        root = put(root, ("cluster",), Node(cluster, mark))
    if devices is not None:
        mark = Mark(Source(f"--devices {devices}"))
        root = put(root, ("cluster", "devices"), Node(devices, mark))
    return root


def _with_override(root: Node, text: str) -> Node:
    mark = Mark(Source(f"--set {text}"[:200], Path.cwd()))
    path, equals, value = text.partition("=")
    if not equals:
        raise SpecError([problem_at(mark, None, "has no value", "path=value, for example training.tokens=2e12")])
    steps = _path_of(path, mark)
    try:
        child = parse_text(value, mark.source).plain() if value.strip() else None
    except SpecError as error:  # a command-line argument has no lines
        raise SpecError(problem_at(mark, dotted(steps), problem.message) for problem in error.problems) from None
    return put(root, steps, from_plain(child, mark))


def _path_of(path: str, mark: Mark) -> PathKey:
    try:
        return parse_path(path.strip())
    except ValueError:
        message = f"{shown(path)} is not a path"
        raise SpecError([problem_at(mark, None, message, "dotted keys, for example training.tokens")]) from None


def _steps(path: str | Iterable[str | int]) -> PathKey:
    return parse_path(path) if isinstance(path, str) else tuple(path)
