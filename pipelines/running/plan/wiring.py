"""Adds the stages (steps) of a recipe to a Beam pipeline (wires them), and finds out which stages the recipe has.

The Beam pipeline also shows which stages reject records, and which columns the stages add to each set of rows (``sft``,
``rl``, ``rejected``). So a recipe need not list its stages, rejections or columns a second time: it only wires the
stages.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.pipeline import PipelineVisitor
from apache_beam.pvalue import PCollection
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import GlobalWindows

from groundtrace.inference.settings import ModelsSettings
from groundtrace.pipelines.running.plan.loading import PipelineError
from groundtrace.schemas.columns import Column
from groundtrace.schemas.errors import UserError
from groundtrace.stages.draw_questions import CUT, CutToTarget
from groundtrace.stages.plumbing.calling import CallModels
from groundtrace.stages.plumbing.options import Options
from groundtrace.stages.plumbing.recipe import Ends, Recipe, RunContext
from groundtrace.stages.plumbing.stage import READ, REJECTED, SIDE_CALLS, DraftStage, RunWork, Stage
from groundtrace.stages.plumbing.stage_list import StageList, list_stages


@dataclass(frozen=True)
class WiredPipeline:
    """Holds the stages (steps) of a recipe on a Beam pipeline, with their outputs.

    Attributes:
        ends: The outputs that the recipe's ``build`` returned: the collections of SFT drafts and RL drafts (questions
            that become rows), and the texts of further files.
        stages: The stages in the order in which they are wired. Stages that read only a sample of the records are last.
        rejected: The collections of rejected records, one for each stage that rejects records.
        read: The collections with the number (line or row in the input) and the id of each record that was read.
        side_calls: The collections with the model calls of the stages that read only a sample of the records.
        added: The columns that the stages add to each set (``sft``, ``rl``, ``rejected``). A set has the columns of the
            stages through which its rows passed.
    """

    ends: Ends
    stages: StageList
    rejected: tuple[PCollection, ...]
    read: tuple[PCollection, ...]
    side_calls: tuple[PCollection, ...]
    added: Mapping[str, tuple[Column[Any], ...]]


def wire(recipe: Recipe, pipeline: beam.Pipeline, context: RunContext, settings: Any) -> WiredPipeline:
    """Add the stages (steps) of ``recipe`` to a Beam pipeline, check them, and return them with their outputs.

    ``pipeline`` is a new Beam pipeline, which is not run here. ``context`` holds the input and the models; it is passed
    to the recipe's ``build`` together with ``settings``, the config.

    Raises :class:`groundtrace.pipelines.running.plan.loading.PipelineError` if the pipeline would lose records. Also
    raises PipelineError if the function of a stage is run outside the stage's own transform, e.g. in a plain
    ``beam.ParDo``: the reports would not list this stage. Also raises PipelineError if a run with a target number of
    SFT rows could reject rows after they were counted. Raises
    :class:`groundtrace.stages.plumbing.stage_list.RecipeError` if two stages or two columns have the same name. Raises
    the errors of ``build``.
    """
    ends = recipe.build(pipeline, context, settings)
    if not isinstance(ends, Ends):
        raise PipelineError(
            f"`build` of the recipe {recipe.name} returned {type(ends).__name__}: return an `Ends` instead"
        )
    seen = _StageVisitor()
    pipeline.visit(seen)
    outer = [node for node in seen.stages if _outermost(node) is node]
    stages = _listed(recipe, (node.transform for node in outer), context.models)
    _check_listed(recipe, seen)
    rejected = tuple(node.outputs[REJECTED] for node in outer if REJECTED in node.outputs)
    for node in seen.stages:
        _check_ended(recipe, node, [*seen.taken, *rejected, ends.sft, ends.rl])
    if context.draw.target_sft is not None and ends.sft is not None:
        _check_target(recipe, ends.sft)
    read, side_calls = (
        tuple(node.outputs[name] for node in seen.stages if name in node.outputs) for name in (READ, SIDE_CALLS)
    )
    if not read:
        raise PipelineError(
            f"no stage of the recipe {recipe.name} has the output {READ!r}, which must hold the records of the input: "
            "begin the DAG with IngestRecords, or return this output from your own first stage"
        )
    return WiredPipeline(ends, stages, rejected, read, side_calls, _added(stages, ends, outer))


def stages_of(recipe: Recipe, context: RunContext, settings: Any) -> StageList:
    """Return the stages (steps) that ``recipe`` has with this config, without setting up their Beam transforms.

    ``context`` holds the input and the models; it is passed to the recipe's ``build`` together with ``settings``, the
    config. Each stage is replaced by a placeholder to save time: a stage consists of several Beam transforms, and
    setting these up takes most of the time of :func:`wire`. For the bundled recipes, :func:`wire` takes 90 to 290 ms,
    and this function takes 12 to 35 ms. Placeholders work if ``build`` only passes the outputs of stages to other
    transforms. Otherwise the stages are set up completely, by :func:`wire`. Raises the errors of :func:`wire`, e.g. if
    two stages have the same name.
    """
    outline = _Outline()
    try:
        recipe.build(outline, context, settings)
    except UserError:
        raise
    except Exception:  # placeholders lack some abilities of outputs; the complete DAG raises a mistake of build again
        return wire(recipe, UnrunPipeline(), context, settings).stages
    return _listed(recipe, outline.stages, context.models)


def _listed(recipe: Recipe, transforms: Iterable[DraftStage], models: ModelsSettings) -> StageList:
    return list_stages(recipe.name, (stage for each in transforms for stage in _described(each))).asking(models)


def _described(transform: DraftStage) -> tuple[Stage, ...]:
    return (*transform.inner, transform.stage)


class UnrunPipeline(beam.Pipeline):
    """Provides a Beam pipeline that is never run. Stages (steps) are added to it only to find out what they are.

    Beam makes a temporary folder for each pipeline, and removes it only after a run. Here it is removed immediately.
    ``options`` are options for Beam.
    """

    def __init__(self, options: Sequence[str] = ()) -> None:
        super().__init__(options=Options([*options]))
        Path(self.local_tempdir).rmdir()


class _Outline(UnrunPipeline):
    """Provides a Beam pipeline that is never run, and that records which stages (steps) a recipe adds to it. To save
    time, it adds a placeholder in place of each stage.
    """

    def __init__(self) -> None:
        super().__init__(["--no_pipeline_type_check"])  # a placeholder's outputs have no type
        self.stages: list[DraftStage] = []

    def apply(self, transform: Any, pvalueish: Any = None, label: str | None = None) -> Any:
        """Apply a transform as Beam does. If the transform is a stage (step of a recipe), apply a placeholder in place
        of the stage. The arguments and the result are those of Beam's method.
        """
        if isinstance(transform, DraftStage):
            self.stages.append(transform)
            transform, label = _StandIn(self), label or transform.label
        return super().apply(transform, pvalueish, label)


class _StandIn(beam.PTransform):
    """Replaces a stage (step of the pipeline) if the stages of a recipe are only listed and not run.

    This placeholder has every output that the recipe uses. All outputs are empty.
    """

    def __init__(self, pipeline: beam.Pipeline) -> None:
        super().__init__()
        self._outputs = _Outputs(pipeline)

    def expand(self, input_or_inputs: Any) -> Any:
        return self._outputs

    def get_windowing(self, inputs: Any) -> Windowing:
        return Windowing(GlobalWindows())


class _Outputs(dict[Any, PCollection]):
    """Holds the empty outputs of a placeholder, as items and as attributes.

    A placeholder replaces a stage (step of the pipeline) if the stages of a recipe are only listed and not run. The
    recipe connects the outputs of a stage, such as ``kept``, with other stages. So a placeholder has them, too. Each
    output is created when it is first requested.
    """

    def __init__(self, pipeline: beam.Pipeline) -> None:
        super().__init__(kept=PCollection(pipeline, is_bounded=True))

    def __missing__(self, name: Any) -> PCollection:
        kept = self["kept"]
        self[name] = PCollection(kept.pipeline, is_bounded=True)
        self[name].producer = kept.producer
        return self[name]

    def __getattr__(self, name: str) -> PCollection:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]


class _StageVisitor(PipelineVisitor):
    """Collects the stages (steps) of a pipeline from Beam's graph, and the nodes that do the work of each stage.

    A node is one transform in Beam's graph. Each stage has a node, which usually contains smaller nodes.

    - ``stages`` holds the nodes of the stages.
    - ``working`` holds pairs: a stage's description, and a node that does work of this stage. There is a pair for the
      stage's own node, and one for each node that runs the stage's function on elements.
    - ``taken`` holds all collections that are inputs of a node.
    """

    def __init__(self) -> None:
        self.stages: list[Any] = []
        self.working: list[tuple[Stage, Any]] = []
        self.taken: list[Any] = []

    def enter_composite_transform(self, transform_node: Any) -> None:
        self.visit_transform(transform_node)
        if isinstance(transform_node.transform, DraftStage):
            self.stages.append(transform_node)
            self.working.append((transform_node.transform.stage, transform_node))

    def visit_transform(self, transform_node: Any) -> None:
        self.taken += [*transform_node.inputs, *(side.pvalue for side in transform_node.side_inputs)]
        work = getattr(transform_node.transform, "fn", None)
        if isinstance(work, RunWork | CallModels):
            self.working.append((work.stage, transform_node))


def _outermost(node: Any) -> Any:
    """Return the outermost stage (pipeline step) around ``node``, as a node of Beam's graph; None if there is none.

    ``node`` is a node (a transform) of Beam's graph, and may itself be the outermost stage.
    """
    found = None
    while node is not None:
        if isinstance(node.transform, DraftStage):
            found = node
        node = node.parent
    return found


def _check_listed(recipe: Recipe, seen: _StageVisitor) -> None:
    """Raise PipelineError if a recipe runs the function of a stage (pipeline step) but does not list the stage.

    A Beam transform that runs the function must be inside a DraftStage, which is a Beam transform, too. The outermost
    DraftStage around it must hold the stage's description, in ``stage`` or in ``inner``. Otherwise the stage would be
    missing in the funnel (records left after each stage), the data card and the output of ``beam validate``. ``seen``
    holds the transforms that were found in the pipeline.
    """
    for stage, node in seen.working:
        outer = _outermost(node)
        if outer is None:
            raise PipelineError(
                f"the recipe {recipe.name} runs the stage {stage.name} in a plain Beam transform, so reports would "
                "not list this stage: run it in the method expand of a subclass of DraftStage, as docs/extend.md "
                "describes"
            )
        if all(stage.name != each.name for each in _described(outer.transform)):
            raise PipelineError(
                f"in the recipe {recipe.name}, the stage {outer.transform.stage.name} runs the stage {stage.name} "
                f"without listing it: add the `Stage` object of {stage.name} to the tuple `inner` of the class "
                f"{type(outer.transform).__name__}"
            )


def _check_ended(recipe: Recipe, node: Any, taken: Sequence[Any]) -> None:
    """Raise PipelineError if a recipe loses the records that a stage (pipeline step) rejects, or those that it keeps.

    ``node`` is the stage in Beam's graph of transforms. ``taken`` holds the collections that are used, e.g. as the
    input of another stage. If the stage can reject records, it must have an output for them, and this output must be
    used. At least one of the stage's outputs for kept records must be used, too.
    """
    stage, outputs = node.transform.stage, node.outputs
    lost = {tag for tag, output in outputs.items() if not any(output is each for each in taken)}
    if REJECTED in lost or (REJECTED not in outputs and stage.meanings):
        raise PipelineError(
            f"the recipe {recipe.name!r} loses the records that the stage {stage.name!r} rejects: return them as "
            f"{REJECTED!r} from the method expand of the class {type(_outermost(node).transform).__name__}"
        )
    if lost >= outputs.keys() - {REJECTED, READ, SIDE_CALLS}:
        raise PipelineError(
            f"the recipe {recipe.name!r} loses the records that the stage {stage.name!r} keeps: pass them to another "
            "stage, or return them from `build`"
        )


def _added(stages: StageList, ends: Ends, outer: Sequence[Any]) -> dict[str, tuple[Column[Any], ...]]:
    """Return the columns that stages add to each set (``sft``, ``rl``, ``rejected``), in the order of the stages.

    A set has the columns of all stages that its records have passed. A rejected record has passed only the stages
    before the stage that rejected it. E.g. if only the second of three stages rejects records, the set ``rejected`` has
    only the columns of the first stage.

    ``ends`` holds the collections of SFT and RL drafts (questions that become rows). ``outer`` holds the nodes
    (transforms in Beam's graph) of those stages that are not inside another stage.
    """
    passed = {name: _passed(end) for name, end in (("sft", ends.sft), ("rl", ends.rl)) if end is not None}
    passed["rejected"] = set[str]().union(
        *(_passed(node.outputs[REJECTED]) - {node.transform.stage.name} for node in outer if REJECTED in node.outputs)
    )
    return {
        name: tuple(dict.fromkeys(c for stage in stages if stage.name in names for c in stage.adds))
        for name, names in passed.items()
    }


def _check_target(recipe: Recipe, sft: PCollection) -> None:
    """Raise PipelineError if a stage (pipeline step) can reject SFT rows after the stage ``cut``.

    ``cut`` keeps the target number of SFT rows and rejects all others. So no row could replace one that a later stage
    rejects, and the run would miss its target. ``sft`` holds the SFT rows of the run.
    """
    found = [*_transforms_before(sft, CutToTarget)]
    if not any(isinstance(each, CutToTarget) for each in found):
        return
    for each in found:
        if each.stage.meanings and not isinstance(each, CutToTarget):
            raise PipelineError(
                f"the recipe {recipe.name!r} cannot make a target number of SFT rows, because the stage "
                f"{each.stage.name!r} can reject rows that the stage {CUT.name!r} has counted: add "
                f"{each.stage.name!r} before {CUT.name!r}, or run without --target-sft"
            )


def _passed(collection: Any) -> set[str]:
    """Return the names of the stages (steps) that the elements of a collection, such as records, have gone through."""
    return {transform.stage.name for transform in _transforms_before(collection)}


def _transforms_before(collection: Any, first: type[DraftStage] | None = None) -> Iterator[DraftStage]:
    """Yield the stages (steps) that the elements of a collection, such as records, have gone through.

    A stage may be yielded several times. If ``first`` is not None, stages before one of this class are left out. A
    transform can read a second collection beside its main input: a side input. Only main inputs are followed, so the
    stages that produced a side input are not in the result.
    """
    done, waiting = set[int](), [collection]
    while waiting:
        node = waiting.pop().producer
        if node is None or id(node) in done:
            continue
        done.add(id(node))
        around, inputs = [], node.inputs
        while node is not None:
            if isinstance(node.transform, DraftStage):
                around.append(node.transform)
            node = node.parent
        yield from around
        if first is None or not any(isinstance(each, first) for each in around):
            waiting += inputs
