"""Builds the Beam job that a run would submit to Dataflow (Google's cloud service), and describes this job.

The job is not submitted. The user requests this by Beam's option ``--dry_run``.
"""

from pathlib import Path
from typing import Any

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2

from groundtrace.pipelines.running.execute.job import wire_job
from groundtrace.pipelines.running.plan.checks import check_plan
from groundtrace.pipelines.running.plan.plan import Plan
from groundtrace.pipelines.shipping.ship import shipped


def dry_run(plan: Plan) -> list[str]:
    """Build the Dataflow job of a run, and return lines of text on its graph and on the files that workers would get.

    Nothing is submitted or written, and a remote run folder is only read. ``plan`` holds what the run needs, such as
    its recipe, settings, input and run folder. Raises the errors of
    :func:`groundtrace.pipelines.running.plan.checks.check_plan` if the run cannot be executed, e.g. because the run
    folder belongs to another input.
    """
    check_plan(plan)
    options = plan.options.copied()
    folder = plan.folder.seen_by_workers(plan.folder.staging / "job", elsewhere=True)
    with shipped(options, plan.recipe_file, plan.extras):
        done: Any = wire_job(plan, options, plan.context, folder).run()
        graph, google = done.job.proto_pipeline, done.job.google_cloud_options
        staged = _staged(graph)
    return [
        f"dry run, nothing was submitted: {google.job_name} in {google.project}, {google.region}",
        f"graph: {len(graph.components.transforms)} transforms, {graph.ByteSize() / 1e6:.1f} MB",
        f"staged under {google.staging_location}:",
        *(f"  {name}, {size / 1e6:.1f} MB" for name, size in sorted(staged.items())),
    ]


def _staged(graph: beam_runner_api_pb2.Pipeline) -> dict[str, int]:
    """Return the files that a job would send to its workers, with their sizes in bytes; ``graph`` describes the job."""
    found = {}
    for environment in graph.components.environments.values():
        for artifact in environment.dependencies:
            if artifact.role_urn == common_urns.artifact_roles.STAGING_TO.urn:
                name = beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(artifact.role_payload).staged_name
                path = beam_runner_api_pb2.ArtifactFilePayload.FromString(artifact.type_payload).path
                found[name] = Path(path).stat().st_size
    return found
