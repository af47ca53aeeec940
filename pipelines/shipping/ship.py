"""Sends the code of Groundtrace and of the recipe (pipeline), and the packages that these need, to the workers of a
Beam job.
"""

import contextlib
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions, SetupOptions, WorkerOptions

from groundtrace.pipelines.running.plan.loading import is_bundled
from groundtrace.pipelines.running.plan.options import is_local
from groundtrace.pipelines.shipping.own_code import NAME, write_own_wheel
from groundtrace.pipelines.shipping.recipe_code import belongs_to, write_recipe_wheel

_PLAIN_IMAGES = ("apache/beam_python", "docker.io/apache/beam_python", "gcr.io/cloud-dataflow/v1beta3/beam_python")
"""The names with which Beam's own worker images begin. Any other image is the user's, and contains Groundtrace."""


@contextlib.contextmanager
def shipped(options: PipelineOptions, recipe: Path, extras: Collection[str] = ()) -> Iterator[None]:
    """Add to the options of a Beam job the Python packages that its workers need.

    The body of the ``with`` statement runs the job. The files of these packages are in a temporary folder, which is
    removed after the body. The user's own ``--extra_package`` and ``--requirements_file`` stay. If the user names no
    requirements file, a file ``requirements.txt`` beside the user's recipe is used. If one of the user's packages is a
    wheel of Groundtrace, no other wheel of Groundtrace is made. If the options name the user's own container image for
    the workers, this image must contain Groundtrace, and only the recipe's code is added. If the workers are on this
    machine, the options stay unchanged.

    Args:
        options: The options of the job, which are changed.
        recipe: The file of the recipe (the pipeline), which has been loaded.
        extras: The extras (optional dependencies) of Groundtrace that the run needs.
    """
    if not goes_elsewhere(options):
        yield
        return
    setup = options.view_as(SetupOptions)
    with tempfile.TemporaryDirectory(prefix="groundtrace-staged-") as name:
        folder, packages = Path(name), list[str](setup.extra_packages or [])
        if not names_own_image(options):
            if not any(Path(package).name.startswith(f"{NAME}-") for package in packages):
                packages.append(str(write_own_wheel(folder, extras)))
            beside = recipe.parent / "requirements.txt"
            if setup.requirements_file is None and not is_bundled(recipe) and beside.is_file():
                setup.requirements_file = str(beside)
        written = write_recipe_wheel(folder, recipe)
        if written is not None:
            wheel, module = written
            packages.append(str(wheel))
            ours = [plugin for plugin in setup.beam_plugins or () if not belongs_to(plugin, recipe.parent)]
            setup.beam_plugins = [module, *ours]
        setup.extra_packages = packages or None
        yield


def goes_elsewhere(options: PipelineOptions) -> bool:
    """Return whether the workers of a Beam job are started by another program, for example on other machines.

    The result is False if the workers are in this process, or if this process starts them. ``options`` are the options
    of the job.
    """
    return not is_local(options) and options.view_as(PortableOptions).environment_type != "LOOPBACK"


def names_own_image(options: PipelineOptions) -> bool:
    """Return whether the options of a Beam job name the user's own worker image (container) instead of one of Beam's.

    Such an image must contain everything that the workers need, except the recipe's code.
    """
    portable = options.view_as(PortableOptions)
    image = options.view_as(WorkerOptions).sdk_container_image
    if image is None and portable.environment_type in (None, "DOCKER"):
        image = portable.environment_config or portable.lookup_environment_option("docker_container_image")
    return bool(image) and not str(image).startswith(_PLAIN_IMAGES)
