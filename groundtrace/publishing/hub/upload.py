"""Uploads the files of a publication to a repository of the Hugging Face Hub.

Large files are uploaded first, one at a time. Then one commit adds all files, and a tag marks this commit. The Hub
keeps each completely uploaded large file, even before a commit refers to it. So the same command resumes an interrupted
publication, and files that the Hub already has are not uploaded again.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, constants, get_session
from huggingface_hub.errors import HFValidationError, RevisionNotFoundError
from huggingface_hub.hf_api import DatasetInfo, RepoFile
from huggingface_hub.utils import hf_raise_for_status, validate_repo_id

from groundtrace.publishing.hub.client import open_client
from groundtrace.publishing.hub.errors import HubDown, PublishError
from groundtrace.publishing.hub.failures import converting_hub_errors, line_of
from groundtrace.publishing.hub.prepare import ARTIFACTS, EXTRAS, Prepared
from groundtrace.schemas.run_summary import TRAINING_SETS
from groundtrace.schemas.text import printable

REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
OURS = frozenset((*ARTIFACTS, "README.md", "run.json", "rubrics.json"))
OUR_SHARD = re.compile(rf"(?:{'|'.join((*TRAINING_SETS, *EXTRAS))})/train-\d+-of-\d+\.parquet", re.ASCII)
"""Matches the paths of the shards that a publication writes to a repository.

The paths of its other files are in :data:`OURS`. Only files with such paths are ever removed from a repository.
"""
SHARD = ".parquet"
PATHS_A_REQUEST = 500
"""The number of files in one request for file information."""
_LEFT_BY_THE_HUB = ".gitattributes"


@dataclass(frozen=True)
class PublishResult:
    """Holds the URL of the repository and the tag of the published content.

    ``is_new`` is False if the repository already held the same content, so that nothing was uploaded.
    """

    url: str
    tag: str
    is_new: bool


def check_name(repo: str) -> None:
    """Check the name of a repository. Raises PublishError if it is not ORG/NAME, or if the Hub does not accept it."""
    if not REPO.fullmatch(repo):
        raise PublishError(
            f"--repo {printable(repo)!r} is not the name of a repository: give ORG/NAME, such as my-team/my-set"
        )
    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise PublishError(
            f"--repo {repo!r} is not a valid name of a repository: {error}: choose another name"
        ) from error


def send(
    prepared: Prepared, repo: str, *, public: bool, replace: bool, report: Callable[[str], None] = print
) -> PublishResult:
    """Upload the files of a publication to a repository of the Hub. Return the URL and the tag of the publication.

    ``prepared`` describes the files and their folder. ``repo`` is the name of the repository, as ORG/NAME. If it does
    not exist, it is created: public if ``public`` is True, else private. An existing repository must be public if
    ``public`` is True, and private if it is False. If ``replace`` is True, another data set in the repository is
    replaced. ``report`` is a function that is called with a line of text for each uploaded file.

    Raises PublishError for a mistake that the user can correct, for example if the repository holds another data set
    and ``replace`` is False. Raises HubDown if the Hub does not answer.
    """
    check_name(repo)
    api = open_client()
    with converting_hub_errors(repo, api.endpoint):
        api.whoami()
        _check_card((prepared.folder / "README.md").read_text("utf-8"))
        url = api.create_repo(repo, repo_type="dataset", private=not public, exist_ok=True)
        there = api.dataset_info(repo)
        if not public and not there.private:
            raise PublishError(f"{repo} already exists and is public: pass --public, or choose another repository")
        if public and there.private:
            raise PublishError(
                f"{repo} already exists and is private: leave out --public, or make it public on the Hub"
            )
        tags = {tag.name: tag.target_commit for tag in api.list_repo_refs(repo, repo_type="dataset").tags}
        if prepared.tag in tags and (tags[prepared.tag] == there.sha or _are_the_same(api, there, prepared)):
            return PublishResult(str(url), prepared.tag, is_new=False)
        stale = stale_files(api, there, prepared, replace)
        additions = list(_sent_files(api, prepared, repo, report))
        removals = [CommitOperationDelete(path, is_folder=False) for path in stale]
        made = api.create_commit(
            repo,
            [*additions, *removals],
            commit_message=f"Groundtrace: {prepared.summary.recipe}, {prepared.tag}",
            repo_type="dataset",
            parent_commit=there.sha,
        )
        api.create_tag(repo, tag=prepared.tag, revision=made.oid, repo_type="dataset", exist_ok=True)
        _check_arrival(api, prepared, repo, made.oid)
    return PublishResult(str(url), prepared.tag, is_new=True)


def _check_card(card: str) -> None:
    """Let the Hub check the text of the data card. Raises PublishError with the Hub's message if the Hub refuses it.

    The client's own check is not used, since before version 2 it sends the card to the public Hub and ignores
    HF_ENDPOINT.
    """
    body = {"repoType": "dataset", "content": card}
    answer = get_session().post(f"{constants.ENDPOINT}/api/validate-yaml", json=body, headers={"Accept": "text/plain"})
    if answer.status_code == 400:
        message = line_of(ValueError(answer.text))
        raise PublishError(
            f"the Hub refuses the data card: {message}: correct the licences in the input or the text that the "
            "pipeline adds to the card, and repeat the run"
        )
    hf_raise_for_status(answer)


def stale_files(api: HfApi, there: DatasetInfo, prepared: Prepared, replace: bool) -> list[str]:
    """Return the paths of files that an older publication wrote to the repository and that the new one does not have.

    The new publication has to remove them. ``there`` describes the repository, and ``prepared`` the new files. Raises
    PublishError in two cases:

    - The repository holds files, but no data set of Groundtrace.
    - The repository holds a data set of Groundtrace with other shards (Parquet files), and ``replace`` is False.
    """
    found = [path for path in _names(there) if path != _LEFT_BY_THE_HUB]
    ours = [path for path in found if _is_ours(path)]
    shards = [path for path in ours if path.endswith(SHARD)]
    if found and not ("run.json" in found and shards):  # other programs write a run.json too
        raise PublishError(
            f"the repository {there.id} holds the file {printable(found[0])!r}, but is not a data set of Groundtrace: "
            "choose another repository"
        )
    if shards and not replace and not _are_the_same(api, there, prepared):
        raise PublishError(
            f"the repository {there.id} holds another data set: pass --replace to replace it (the old version keeps "
            "its Git tag)"
        )
    return [path for path in ours if path not in prepared.files]


def _is_ours(path: str) -> bool:
    """Return whether a publication may write a file with this path; False for other files, such as a user's notes."""
    return path in OURS or OUR_SHARD.fullmatch(path) is not None


def _names(there: DatasetInfo) -> list[str]:
    """Return the paths of all files in the repository that ``there`` describes."""
    return [file.rfilename for file in there.siblings or ()]


def _are_the_same(api: HfApi, there: DatasetInfo, prepared: Prepared) -> bool:
    """Return whether the repository holds exactly the shards (Parquet files) to publish."""
    shards = [path for path in _names(there) if _is_ours(path) and path.endswith(SHARD)]
    if set(shards) != {path for path in prepared.files if path.endswith(SHARD)}:
        return False
    return not _missing(api, prepared, there.id, shards, "main")


def _check_arrival(api: HfApi, prepared: Prepared, repo: str, commit: str) -> None:
    """Raise HubDown if a file is missing or different in the repository, although the Hub accepted all files.

    All files are checked in the new commit, ``commit``. The shards (Parquet files) are also checked in the commit that
    the publication's tag marks. Normally, this is the same commit. But if the same data was published before, the tag
    still marks the earlier commit, which has the same shards, but possibly an older data card.
    """
    shards = [path for path in prepared.files if path.endswith(SHARD)]
    for revision, paths in ((commit, list(prepared.files)), (prepared.tag, shards)):
        try:
            lost = _missing(api, prepared, repo, paths, revision)
        except RevisionNotFoundError:
            lost = paths
        if lost:
            raise HubDown(
                f"the Hub accepted all files, but the file {lost[0]} is missing or different in {repo} at revision "
                f"{printable(revision)}: run the same command again, and check the repository on the Hub"
            )


def _missing(api: HfApi, prepared: Prepared, repo: str, paths: Sequence[str], revision: str) -> list[str]:
    """Return those of ``paths`` that the repository lacks, or whose files have other content than the files to publish.
    ``revision`` is the commit or tag in which the files are compared.

    The comparison relies on the sizes and digests that the Hub reports.
    """
    found: dict[str, RepoFile] = {}
    for first in range(0, len(paths), PATHS_A_REQUEST):
        asked = list(paths[first : first + PATHS_A_REQUEST])
        infos = api.get_paths_info(repo, asked, revision=revision, repo_type="dataset")
        found |= {file.path: file for file in infos if isinstance(file, RepoFile)}
    return [path for path in paths if not _is_as_sent(found.get(path), prepared, path)]


def _is_as_sent(file: RepoFile | None, prepared: Prepared, path: str) -> bool:
    """Return whether a file of the repository has the same content as the local file with the path ``path``.

    The digests are compared. If the Hub reports no digest for a shard (Parquet file), the shard counts as different.
    For any other file without a digest, the sizes are compared. The result is False if ``file`` is None.
    """
    if file is None or file.lfs is None:
        return file is not None and not path.endswith(SHARD) and file.size == prepared.size_bytes(path)
    return file.lfs.sha256 == prepared.files[path]


def _sent_files(
    api: HfApi, prepared: Prepared, repo: str, report: Callable[[str], None]
) -> Iterator[CommitOperationAdd]:
    """Yield one operation for each file to publish. The operation adds the file to the commit.

    Each large file is uploaded before its operation is yielded. Small files are uploaded later, with the commit.
    ``report`` is a function that is called with a line of text for each file.
    """
    for number, name in enumerate(prepared.files, 1):
        addition = CommitOperationAdd(name, str((prepared.folder / name).resolve()))
        api.preupload_lfs_files(repo, [addition], repo_type="dataset")
        report(f"{number} of {len(prepared.files)}: {name}, {mb(prepared.size_bytes(name))}")
        yield addition


def mb(size_bytes: float) -> str:
    """Return a size in bytes as text in MB or kB, such as ``1.5 MB``. Sizes below 0.1 MB are given in kB."""
    return f"{size_bytes / 1e6:,.1f} MB" if size_bytes >= 1e5 else f"{size_bytes / 1e3:,.1f} kB"
