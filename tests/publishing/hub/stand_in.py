"""A stand-in for the Hub: what of its HTTP API ``huggingface_hub`` and ``datasets`` use to publish and load a set.

It keeps blobs and commits on disk, so that a client that died is met again by the same server. Requests are checked as
the Hub checks them where a client could get it wrong: tokens, who may write where, the parent of a commit, the digest
and size of a large file, front matter of a card.

Gaps: no Xet (clients run with HF_HUB_DISABLE_XET=1, so large files come by the LFS protocol), no pull requests, no
branches but main, no gated or disabled repositories, no quota, no rate limits; the card is held against the licence ids
and the form of its fields, not against the Hub's whole schema; web pages and the viewer are not there.
"""

import base64
import hashlib
import json
import re
import threading
import urllib.parse
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

TOKEN = "hf_StandInTokenOfThisTestOnly"
USER, ORG, CLOSED_ORG = "me", "my-team", "other-team"
PART_BYTES = 300_000
"""Larger files come in parts."""
SMALL_BYTES = 100_000
"""Other files than Parquet are LFS files from here on."""
NO_COMMIT = "0" * 40


class Refusal(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, said: str, **more: Any) -> None:
        super().__init__(said)
        self.status, self.said, self.more = status, said, more


class Repo:
    """A repository: its commits from the first on, each with the files that it holds, and its tags."""

    def __init__(self, name: str, private: bool) -> None:
        self.name, self.private = name, private
        self.commits: list[tuple[str, dict[str, tuple[str, int, bool]]]] = [(NO_COMMIT, {})]
        self.tags: dict[str, str] = {}

    @property
    def sha(self) -> str:
        return self.commits[-1][0]

    def at(self, revision: str) -> tuple[str, dict[str, tuple[str, int, bool]]]:
        """A commit by id, tag or branch: its id, and by path the blob, the size, and whether it is an LFS file."""
        wanted = self.sha if revision in ("main", "HEAD") else self.tags.get(revision, revision)
        for sha, files in self.commits:
            if sha == wanted:
                return sha, files
        raise Refusal(404, "Invalid rev id", code="RevisionNotFound")


class StandIn:
    """The server. ``fail`` is asked of every request (method, path) for a status to answer with instead; None: none.

    ``lie`` is asked likewise for a body that is answered with 200, and nothing is done.
    """

    def __init__(self, folder: Path) -> None:
        self.blobs = folder / "blobs"
        self.blobs.mkdir(parents=True)
        self.repos: dict[str, Repo] = {}
        self.requests: list[tuple[str, str]] = []
        self.fail: Callable[[str, str], int | None] = lambda method, path: None
        self.lie: Callable[[str, str], bytes | None] = lambda method, path: None
        self.lock = threading.Lock()
        stand_in = self

        class Handler(_Handler):
            hub = stand_in

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def sent(self, method: str, pattern: str) -> list[str]:
        """The paths of the requests of this method that match."""
        return [path for used, path in self.requests if used == method and re.search(pattern, path)]

    def blob(self, oid: str) -> Path:
        return self.blobs / oid

    def read(self, repo: str, path: str, revision: str = "main") -> bytes:
        oid, _, _ = self.repos[repo].at(revision)[1][path]
        return self.blob(oid).read_bytes()

    def files(self, repo: str, revision: str = "main") -> list[str]:
        return sorted(self.repos[repo].at(revision)[1])


class _Handler(BaseHTTPRequestHandler):
    hub: StandIn
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: object) -> None: ...

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_HEAD(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def do_PUT(self) -> None:
        self._answer(self._put)

    def _answer(self, act: Callable[[str, bytes], None]) -> None:
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("transfer-encoding") == "chunked":
            body = self._chunks()
        with self.hub.lock:
            self.hub.requests.append((self.command, path))
        try:
            status = self.hub.fail(self.command, path)
            if status:
                raise Refusal(status, f"planted failure {status}")
            lie = self.hub.lie(self.command, path)
            if lie is not None:
                return self._send(lie, 200, {"content-type": "application/json"})
            act(path, body)
        except Refusal as refusal:
            headers = {"x-error-message": refusal.said, "x-error-code": str(refusal.more.pop("code", ""))}
            self._json({"error": refusal.said, **refusal.more}, refusal.status, headers)

    def _chunks(self) -> bytes:
        found = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._send(json.dumps(value).encode(), status, {"content-type": "application/json", **(headers or {})})

    def _send(self, data: bytes, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"content-length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _has_token(self) -> bool:
        given = self.headers.get("authorization")
        if given and given != f"Bearer {TOKEN}":
            raise Refusal(401, "Invalid username or password.")
        return bool(given)

    def _writes(self, owner: str) -> None:
        if not self._has_token():
            raise Refusal(401, "Invalid username or password.")
        if owner not in (USER, ORG):
            raise Refusal(403, f'You don\'t have the rights to create a dataset under the namespace "{owner}"')

    def _repo(self, name: str) -> Repo:
        repo = self.hub.repos.get(name)
        if repo is None or (repo.private and not self._has_token()):
            raise Refusal(404 if self._has_token() else 401, "Repository not found", code="RepoNotFound")
        return repo

    def _get(self, path: str, _: bytes) -> None:
        if path == "/api/whoami-v2":
            if not self._has_token():
                raise Refusal(401, "Invalid username or password.")
            return self._json({"type": "user", "name": USER, "orgs": [{"name": ORG, "type": "org"}], "auth": {}})
        if found := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)/refs", path):
            repo = self._repo(found[1])
            tags = [{"name": tag, "ref": f"refs/tags/{tag}", "targetCommit": sha} for tag, sha in repo.tags.items()]
            branches = [{"name": "main", "ref": "refs/heads/main", "targetCommit": repo.sha}]
            return self._json({"branches": branches, "converts": [], "tags": tags})
        if found := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)/tree/([^/]+)(?:/(.*))?", path):
            return self._json(self._tree(found[1], found[2], found[3] or ""))
        if found := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)(?:/revision/(.+))?", path):
            repo = self._repo(found[1])
            sha, files = repo.at(found[2] or "main")
            told = {"id": repo.name, "sha": sha, "private": repo.private, "tags": [], "downloads": 0, "likes": 0}
            return self._json(told | {"siblings": [{"rfilename": name} for name in sorted(files)]})
        if found := re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self._file(found[1], found[2], found[3])
        raise Refusal(404, "Sorry, we can't find the page you are looking for.")

    def _entry(self, path: str, oid: str, size: int, is_lfs: bool) -> dict[str, Any]:
        lfs = {"lfs": {"oid": oid, "size": size, "pointerSize": 134}} if is_lfs else {}
        return {"type": "file", "oid": hashlib.sha1(oid.encode()).hexdigest(), "size": size, "path": path, **lfs}

    def _tree(self, name: str, revision: str, folder: str) -> list[dict[str, Any]]:
        _, files = self._repo(name).at(revision)
        is_deep = "recursive=true" in self.path.lower()
        prefix, found, folders = f"{folder}/" if folder else "", [], set()
        for path, (oid, size, is_lfs) in sorted(files.items()):
            if not path.startswith(prefix):
                continue
            inside = path.removeprefix(prefix).split("/")
            if len(inside) > 1:
                folders.add(prefix + inside[0])
            if is_deep or len(inside) == 1:
                found.append(self._entry(path, oid, size, is_lfs))
        if prefix and not found and not folders:
            raise Refusal(404, f"{folder} does not exist", code="EntryNotFound")
        return [*({"type": "directory", "oid": "d" * 40, "size": 0, "path": path} for path in sorted(folders)), *found]

    def _file(self, name: str, revision: str, path: str) -> None:
        sha, files = self._repo(name).at(revision)
        if path not in files:
            raise Refusal(404, "Entry not found", code="EntryNotFound")
        oid, size, is_lfs = files[path]
        headers = {"etag": f'"{oid}"', "x-repo-commit": sha, "accept-ranges": "bytes"}
        if is_lfs:
            headers |= {"x-linked-etag": f'"{oid}"', "x-linked-size": str(size)}
        data = self.hub.blob(oid).read_bytes()
        if wanted := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range") or ""):
            first, last = int(wanted[1]), min(int(wanted[2] or size - 1), size - 1)
            headers["content-range"] = f"bytes {first}-{last}/{size}"
            self._send(data[first : last + 1], 206, headers)
        else:
            self._send(data, 200, headers)

    def _post(self, path: str, body: bytes) -> None:
        if path == "/api/validate-yaml":
            return self._validate(json.loads(body))
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if path == "/lfs/verify":
            told = json.loads(body)
            blob = self.hub.blob(told["oid"])
            if not blob.is_file() or blob.stat().st_size != told["size"]:
                raise Refusal(404, "the object is not there")
            return self._json({})
        if found := re.fullmatch(r"/lfs/complete/(\w+)", path):
            return self._complete(found[1], json.loads(body))
        if found := re.fullmatch(r"/datasets/([^/]+/[^/]+)\.git/info/lfs/objects/batch", path):
            return self._batch(found[1], json.loads(body))
        for name, act in (("preupload", self._preupload), ("commit", self._commit), ("tag", self._tag)):
            if found := re.fullmatch(rf"/api/datasets/([^/]+)/([^/]+)/{name}/(.+)", path):
                self._writes(found[1])
                return act(self._repo(f"{found[1]}/{found[2]}"), found[3], body)
        if found := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)/paths-info/(.+)", path):
            _, files = self._repo(found[1]).at(found[2])
            form = json.loads(body) if body[:1] == b"{" else urllib.parse.parse_qs(body.decode())
            wanted = form.get("paths", [])
            wanted = [wanted] if isinstance(wanted, str) else wanted
            entries = [self._entry(path, *files[path]) for path in wanted if path in files]
            folders = [p for p in wanted if p not in files and any(f.startswith(f"{p}/") for f in files)]
            return self._json(
                [*entries, *({"type": "directory", "oid": "d" * 40, "size": 0, "path": p} for p in folders)]
            )
        raise Refusal(404, "Sorry, we can't find the page you are looking for.")

    def _validate(self, told: dict[str, Any]) -> None:
        parts = told["content"].split("---\n", 2)
        front = yaml.safe_load(parts[1]) if len(parts) == 3 else None
        errors = []
        if not isinstance(front, dict):
            warning = {"message": "empty or missing yaml metadata in repo card"}
            self._json({"errors": [], "warnings": [warning]})
            return
        licences = front.get("license", [])
        for licence in licences if isinstance(licences, list) else [licences]:
            if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", str(licence)):
                errors.append({"message": f'"license" must be one of [apache-2.0, mit, …], got {licence!r}'})
        if not isinstance(front.get("pretty_name", ""), str):
            errors.append({"message": '"pretty_name" must be a string'})
        if "planted-bad-tag" in str(front.get("tags")):
            errors.append({"message": '"tags[0]" is not allowed to be planted-bad-tag'})
        self._json({"errors": errors, "warnings": []}, 400 if errors else 200)

    def _create(self, told: dict[str, Any]) -> None:
        owner = told.get("organization") or USER
        self._writes(owner)
        name = f"{owner}/{told['name']}"
        url = f"{self.hub.url}/datasets/{name}"
        if told.get("type") != "dataset":
            raise Refusal(400, "only data sets are kept here")
        with self.hub.lock:
            if name in self.hub.repos:
                raise Refusal(409, "You already created this dataset repo", url=url)
            self.hub.repos[name] = Repo(name, told.get("visibility") == "private" or told.get("private") is True)
        self._json({"url": url, "name": name, "id": name})

    def _preupload(self, repo: Repo, revision: str, body: bytes) -> None:
        _, files = repo.at(revision)
        answers = []
        for file in json.loads(body)["files"]:
            is_lfs = file["path"].endswith(".parquet") or file["size"] > SMALL_BYTES
            known = files.get(file["path"])
            oid = known[0] if known else None
            answers.append(
                {"path": file["path"], "uploadMode": "lfs" if is_lfs else "regular", "shouldIgnore": False, "oid": oid}
            )
        self._json({"files": answers})

    def _batch(self, name: str, told: dict[str, Any]) -> None:
        self._writes(name.split("/")[0])
        objects = []
        for wanted in told["objects"]:
            oid, size = wanted["oid"], wanted["size"]
            entry: dict[str, Any] = {"oid": oid, "size": size}
            if not self.hub.blob(oid).is_file():
                upload: dict[str, Any] = {"href": f"{self.hub.url}/lfs/put/{oid}"}
                if size > PART_BYTES and "multipart" in told["transfers"]:
                    parts = range(1, -(-size // PART_BYTES) + 1)
                    header = {f"{part:05d}": f"{self.hub.url}/lfs/part/{oid}/{part}" for part in parts}
                    upload = {
                        "href": f"{self.hub.url}/lfs/complete/{oid}",
                        "header": {"chunk_size": str(PART_BYTES)} | header,
                    }
                entry["actions"] = {"upload": upload, "verify": {"href": f"{self.hub.url}/lfs/verify"}}
            objects.append(entry)
        self._json({"transfer": "basic", "objects": objects})

    def _put(self, path: str, body: bytes) -> None:
        if found := re.fullmatch(r"/lfs/put/(\w+)", path):
            if hashlib.sha256(body).hexdigest() != found[1]:
                raise Refusal(400, "the object's digest is another")
            self.hub.blob(found[1]).write_bytes(body)
            return self._send(b"", 200, {"etag": '"whole"'})
        if found := re.fullmatch(r"/lfs/part/(\w+)/(\d+)", path):
            (self.hub.blobs / f"{found[1]}.part{found[2]}").write_bytes(body)
            return self._send(b"", 200, {"etag": f'"part-{found[2]}"'})
        raise Refusal(404, "there is nothing to put here")

    def _complete(self, oid: str, told: dict[str, Any]) -> None:
        parts = [self.hub.blobs / f"{oid}.part{part['partNumber']}" for part in told["parts"]]
        data = b"".join(part.read_bytes() for part in parts)
        if hashlib.sha256(data).hexdigest() != oid:
            raise Refusal(400, "the object's digest is another")
        self.hub.blob(oid).write_bytes(data)
        for part in parts:
            part.unlink()
        self._json({})

    def _commit(self, repo: Repo, revision: str, body: bytes) -> None:
        lines = [json.loads(line) for line in body.splitlines() if line]
        head, *operations = lines
        if head["value"].get("parentCommit") not in (None, repo.sha):
            raise Refusal(412, "A commit has happened since. Please refresh and try again.")
        files = dict(repo.at(revision)[1])
        for operation in operations:
            value = operation["value"]
            if operation["key"] == "file":
                data = base64.b64decode(value["content"])
                oid = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
                self.hub.blob(oid).write_bytes(data)
                files[value["path"]] = (oid, len(data), False)
            elif operation["key"] == "lfsFile":
                blob = self.hub.blob(value["oid"])
                if not blob.is_file():
                    raise Refusal(400, f"the LFS object {value['oid']} of {value['path']} was never uploaded")
                files[value["path"]] = (value["oid"], blob.stat().st_size, True)
            elif operation["key"] == "deletedFile":
                if files.pop(value["path"], None) is None:
                    raise Refusal(404, "A file with this name doesn't exist", code="EntryNotFound")
            else:
                raise Refusal(400, f"an operation {operation['key']}")
        sha = hashlib.sha1(f"{repo.sha}{sorted(files.items())}{head}".encode()).hexdigest()
        repo.commits.append((sha, files))
        self._json(
            {"success": True, "commitOid": sha, "commitUrl": f"{self.hub.url}/datasets/{repo.name}/commit/{sha}"}
        )

    def _tag(self, repo: Repo, revision: str, body: bytes) -> None:
        tag = json.loads(body)["tag"]
        if tag in repo.tags:
            raise Refusal(409, "Tag reference exists already.")
        repo.tags[tag] = repo.at(revision)[0]
        self._json({})
