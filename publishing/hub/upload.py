"""Sending what was prepared to a repository of the Hub: large files one at a time, then one commit, then a tag.

The Hub keeps a large file from the moment it has it, whole, though no commit names it yet. So a publication that broke
off is continued by the same command: what the Hub has is not sent again.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, DatasetCard, HfApi
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError, RepositoryNotFoundError
from huggingface_hub.hf_api import DatasetInfo, RepoFile
from huggingface_hub.utils import disable_progress_bars

from inference.endpoints.keys import scrub
from publishing.hub.errors import HubDown, PublishError
from publishing.hub.prepare import ARTIFACTS, EXTRAS, Prepared
from schemas.run_summary import TRAINING_SETS
from schemas.text import printable

REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
MAX_SAID_CHARS = 300
OURS = frozenset((*ARTIFACTS, "README.md", "run.json", "rubrics.json"))
OUR_SHARD = re.compile(rf"(?:{'|'.join((*TRAINING_SETS, *EXTRAS))})/train-\d+-of-\d+\.parquet", re.ASCII)
"""With :data:`OURS`, what a publication puts in a repository; nothing else there is ever removed."""
SHARD = ".parquet"
_LEFT_BY_THE_HUB = ".gitattributes"


@dataclass(frozen=True)
class Sent:
    """Where a publication stands; ``is_new`` is False where it was there already."""

    url: str
    tag: str
    is_new: bool


def check_name(repo: str) -> None:
    """Raises PublishError for what is no name of a repository."""
    if not REPO.fullmatch(repo):
        raise PublishError(
            f"--repo {printable(repo)!r} is no name of a repository: give ORG/NAME, such as my-team/my-set"
        )


def send(prepared: Prepared, repo: str, *, public: bool, replace: bool, tell: Callable[[str], None] = print) -> Sent:
    """Publish; ``tell`` is told of each file that the Hub has.

    Raises PublishError for what the user can mend, and HubDown where the Hub does not answer.
    """
    check_name(repo)
    disable_progress_bars()
    api = HfApi()
    with _failures_told(repo, api):
        api.whoami()
        DatasetCard((prepared.folder / "README.md").read_text("utf-8")).validate(repo_type="dataset")
        url = api.create_repo(repo, repo_type="dataset", private=not public, exist_ok=True)
        there = api.dataset_info(repo)
        if not public and not there.private:
            raise PublishError(f"{repo} is there already and public: pass --public, or name another repository")
        if public and there.private:
            raise PublishError(f"{repo} is there already and private: leave out --public, or change it on the Hub")
        tags = {tag.name: tag.target_commit for tag in api.list_repo_refs(repo, repo_type="dataset").tags}
        if prepared.tag in tags and (tags[prepared.tag] == there.sha or _are_the_same(api, there, prepared)):
            return Sent(str(url), prepared.tag, is_new=False)
        stale = stale_files(api, there, prepared, replace)
        additions = list(_sent_files(api, prepared, repo, tell))
        removals = [CommitOperationDelete(path, is_folder=False) for path in stale]
        made = api.create_commit(
            repo,
            [*additions, *removals],
            commit_message=f"Groundtrace: {prepared.summary.recipe}, {prepared.tag}",
            repo_type="dataset",
            parent_commit=there.sha,
        )
        api.create_tag(repo, tag=prepared.tag, revision=made.oid, repo_type="dataset", exist_ok=True)
    return Sent(str(url), prepared.tag, is_new=True)


def stale_files(api: HfApi, there: DatasetInfo, prepared: Prepared, replace: bool) -> list[str]:
    """The files of another publication that this one has not. Raises PublishError where they may not be replaced."""
    found = [path for path in _names(there) if path != _LEFT_BY_THE_HUB]
    ours = [path for path in found if _is_ours(path)]
    shards = [path for path in ours if path.endswith(SHARD)]
    if found and not ("run.json" in found and shards):  # other programs write a run.json too
        raise PublishError(
            f"{there.id} holds {printable(found[0])!r} and no set of Groundtrace: name another repository"
        )
    if shards and not replace and not _are_the_same(api, there, prepared):
        raise PublishError(
            f"{there.id} holds another set: pass --replace to put this one in its place (its tag still leads to the "
            "old one)"
        )
    return [path for path in ours if path not in prepared.files]


def _is_ours(path: str) -> bool:
    """Whether a publication gives a file this very name; a note beside the shards has another."""
    return path in OURS or OUR_SHARD.fullmatch(path) is not None


def _names(there: DatasetInfo) -> list[str]:
    return [file.rfilename for file in there.siblings or ()]


def _are_the_same(api: HfApi, there: DatasetInfo, prepared: Prepared) -> bool:
    """Whether the shards there are those to send."""
    shards = [path for path in _names(there) if _is_ours(path) and path.endswith(SHARD)]
    if set(shards) != {path for path in prepared.files if path.endswith(SHARD)}:
        return False
    found = api.get_paths_info(there.id, shards, repo_type="dataset")
    digests = {file.path: file.lfs.sha256 for file in found if isinstance(file, RepoFile) and file.lfs}
    return all(digests.get(path) == prepared.files[path] for path in shards)


def _sent_files(api: HfApi, prepared: Prepared, repo: str, tell: Callable[[str], None]) -> Iterator[CommitOperationAdd]:
    """The files as operations of a commit, the large ones uploaded."""
    for number, name in enumerate(prepared.files, 1):
        addition = CommitOperationAdd(name, str((prepared.folder / name).resolve()))
        api.preupload_lfs_files(repo, [addition], repo_type="dataset")
        tell(f"{number} of {len(prepared.files)}: {name}, {mb(prepared.size_bytes(name))}")
        yield addition


def mb(size_bytes: float) -> str:
    """A size for people."""
    return f"{size_bytes / 1e6:,.1f} MB" if size_bytes >= 1e5 else f"{size_bytes / 1e3:,.1f} kB"


@contextmanager
def _failures_told(repo: str, api: HfApi) -> Iterator[None]:
    """What the client raises, as one line of what the Hub said and what to do."""
    try:
        yield
    except (PublishError, HubDown):
        raise
    except LocalTokenNotFoundError as error:
        raise PublishError("there is no token: set HF_TOKEN, or log in with `hf auth login`") from error
    except HFValidationError as error:
        raise PublishError(f"--repo {repo!r} is refused: {_line(error)}") from error
    except Exception as error:
        raise _told(error, repo, api.endpoint) from None  # the cause quotes the request, and with it the token


def _told(error: BaseException, repo: str, endpoint: str) -> Exception:
    refused = _http_error(error)
    if refused is None:
        if isinstance(error, ValueError):  # so the client gives the Hub's verdict on a card
            return PublishError(f"the Hub refuses the data card: {_line(error)}: correct the recipe or the licences")
        return HubDown(f"{endpoint} does not answer: {_line(error)}; the same command goes on where this one stopped")
    status = refused.response.status_code
    if status == 401:
        return PublishError(f"the Hub refuses the token: {_line(refused)}: set HF_TOKEN to one that may write {repo}")
    if isinstance(refused, RepositoryNotFoundError) or status in (403, 404):
        return PublishError(
            f"{repo} may not be written with this token: {_line(refused)}: name another, or ask its owner"
        )
    if status == 412 or status == 409:
        return PublishError(f"{repo} was changed meanwhile: {_line(refused)}: run the same command again")
    if status < 500 and status != 429:
        return PublishError(f"the Hub refuses the publication: {_line(refused)}")
    return HubDown(f"the Hub failed (HTTP {status}): {_line(refused)}; the same command goes on where this one stopped")


def _http_error(error: BaseException | None) -> HfHubHTTPError | None:
    """The answer of the Hub among an error and its causes."""
    while error is not None:
        if isinstance(error, HfHubHTTPError):
            return error
        error = error.__cause__
    return None


def _line(error: BaseException) -> str:
    """What an error says on one line, without a token."""
    said = getattr(error, "server_message", None) or str(error) or type(error).__name__
    if error.__cause__ is not None and isinstance(error, RuntimeError):
        said = f"{said}: {error.__cause__}"
    return printable(" ".join(_without_tokens(said).split()))[:MAX_SAID_CHARS]


def _without_tokens(text: str) -> str:
    from huggingface_hub import get_token

    token = get_token()
    return scrub(text, token) if token else text
